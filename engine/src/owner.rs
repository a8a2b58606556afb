//! How lease owners are displayed to other clients, in the log, in searches and in responses.

use std::borrow::Cow;

use leasehold_base::text::shortened;
use leasehold_core::{Dialect, Owner};

/// The Redis protocol. Here the owner's name is the secret value that proves the lock.
pub const REDIS: Dialect = Dialect(5);
/// The Terraform `http` backend. Here the owner's name is the secret lock id that proves the lock.
pub const TERRAFORM: Dialect = Dialect(6);
/// The prefix of the owner names under which Terraform states are written without a lock. Such a name proves nothing.
pub const WITHOUT_LOCK: &str = "write without a lock";

/// Returns the owner as it is displayed to other clients. If knowing the owner's name is enough to use its lock,
/// returns only the beginning of the name.
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
