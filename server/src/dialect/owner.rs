//! The owner a request speaks for.

use leasehold_core::Owner;

use crate::auth::Caller;

/// Who they are for sure, and which of their programs or machines they say it is.
pub(super) fn of(caller: &Caller, instance: &str) -> Owner {
    Owner { principal: caller.principal().name().clone(), instance: instance.into() }
}
