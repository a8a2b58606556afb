//! How the owner of a lease is shown to others, in the log, in searches and in answers.

use std::borrow::Cow;

use leasehold_base::text::shortened;
use leasehold_core::{Dialect, Owner};

/// The Redis protocol. The name of an owner is the value that proves the lock.
pub const REDIS: Dialect = Dialect(5);
/// The Terraform `http` backend. The name of an owner is the id that proves the lock.
pub const TERRAFORM: Dialect = Dialect(6);
/// How the names of Terraform's owners begin that wrote a state without a lock. Such a name proves nothing.
pub const WITHOUT_LOCK: &str = "write without a lock";

/// Returns the owner as other readers see it. If the owner's name proves the lock, only its beginning is returned.
pub fn shown(dialect: Dialect, owner: &Owner) -> Cow<'_, str> {
    if is_proof(dialect, owner) {
        shortened(&owner.instance).into()
    } else {
        Cow::Borrowed(&owner.instance)
    }
}

/// Returns whether the owner's name proves the lock.
pub(crate) fn is_proof(dialect: Dialect, owner: &Owner) -> bool {
    dialect == REDIS || dialect == TERRAFORM && !owner.instance.starts_with(WITHOUT_LOCK)
}
