//! The owner a request speaks for, and how one is shown to others.

use std::borrow::Cow;

use leasehold_core::{Dialect as Number, Owner};

use super::terraform;
use crate::auth::{ANONYMOUS, Caller};
use crate::http::html::is_hidden;

/// Who they are for sure, and which of their programs or machines they say it is.
pub(super) fn of(caller: &Caller, instance: &str) -> Owner {
    Owner { principal: caller.principal().name().clone(), instance: instance.into() }
}

/// The principal of an owner, if a credential proved it. Two of one name are not one owner if these differ.
pub(crate) fn vouched(owner: &Owner) -> Option<&str> {
    (*owner.principal != *ANONYMOUS).then_some(&*owner.principal)
}

/// What somebody calls themselves, for the terminals of others: an owner can call itself anything.
pub(super) fn plain(name: &str) -> Cow<'_, str> {
    if !name.contains(is_hidden) {
        return name.into();
    }
    name.replace(is_hidden, "\u{fffd}").into()
}

/// What the holder of a lease calls itself, for others: never what would prove that they are it.
pub(super) fn called(dialect: Number, owner: &Owner, metadata: Option<&[u8]>) -> String {
    match terraform::who(dialect, owner, metadata) {
        Some(who) => plain(&who).into(),
        None => plain(&owner.instance).into(),
    }
}

/// What somebody calls themselves, and who they are for sure, where that is known and is something else.
pub(super) fn named(owner: &Owner, called: &str) -> String {
    match vouched(owner) {
        Some(principal) if called.is_empty() || called == principal => principal.into(),
        Some(principal) => format!("{called} ({principal})"),
        None => called.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_with_who_it_is_for_sure() {
        let owner = |principal: &str| Owner { principal: principal.into(), instance: "x".into() };
        assert_eq!(named(&owner(ANONYMOUS), "key:admin"), "key:admin");
        assert_eq!(named(&owner("key:ann"), "key:admin"), "key:admin (key:ann)");
        assert_eq!(named(&owner("key:ann"), "key:ann"), "key:ann");
        assert_eq!(named(&owner("key:ann"), ""), "key:ann");
    }

    #[test]
    fn a_name_does_nothing_to_a_terminal() {
        assert_eq!(plain("ann@laptop"), "ann@laptop");
        assert_eq!(plain("a\u{1b}[2Jb\nc\u{202e}d"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d");
    }
}
