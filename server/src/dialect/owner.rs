//! The owner a request speaks for.

use leasehold_core::Owner;

use crate::auth::{ANONYMOUS, Caller};

/// Who they are for sure, and which of their programs or machines they say it is.
pub(super) fn of(caller: &Caller, instance: &str) -> Owner {
    Owner { principal: caller.principal().name().clone(), instance: instance.into() }
}

/// The principal of an owner, if a credential proved it. Two of one name are not one owner if these differ.
pub(crate) fn vouched(owner: &Owner) -> Option<&str> {
    (*owner.principal != *ANONYMOUS).then_some(&*owner.principal)
}
