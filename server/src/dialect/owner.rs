//! Who asks.

use leasehold_core::Owner;

/// Without authentication everybody is this one.
const ANONYMOUS: &str = "anonymous";

/// The owner a request that proves nothing speaks for.
pub(super) fn anonymous(owner_id: &str) -> Owner {
    Owner::new(ANONYMOUS, owner_id)
}
