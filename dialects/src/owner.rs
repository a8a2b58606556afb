//! The owner in whose name a request acts, and how owners are shown to others.

use std::borrow::Cow;

use leasehold_auth::{ANONYMOUS, Caller};
use leasehold_core::{Dialect as Number, Owner};
use leasehold_engine::owner::{REDIS, TERRAFORM};

use super::{Dialect, terraform};
use leasehold_base::text::is_hidden;
pub(super) use leasehold_base::text::shortened;
pub use leasehold_engine::owner::shown;

// The engine knows these two by their numbers.
const _: () = assert!(Dialect::Redis as u8 == REDIS.0 && Dialect::Terraform as u8 == TERRAFORM.0);

/// Returns an owner: the authenticated principal, and the program or machine that the client names.
pub(super) fn of(caller: &Caller, instance: &str) -> Owner {
    Owner { principal: caller.principal().name().clone(), instance: instance.into() }
}

/// Returns the principal of an owner, if a credential proved it. Owners with the same instance but different
/// principals are different owners.
pub fn vouched(owner: &Owner) -> Option<&str> {
    (*owner.principal != *ANONYMOUS).then_some(&*owner.principal)
}

/// Returns a client-chosen name without control characters, so that it is safe to print on other people's terminals.
pub(super) fn plain(name: &str) -> Cow<'_, str> {
    if !name.contains(is_hidden) {
        return name.into();
    }
    name.replace(is_hidden, "\u{fffd}").into()
}

/// Returns the metadata of a lock as other readers see it.
pub fn shown_metadata(dialect: Number, metadata: &[u8]) -> Cow<'_, [u8]> {
    if dialect != Dialect::Terraform.number() {
        metadata.into()
    } else {
        terraform::shown(metadata).into()
    }
}

/// Returns the name by which others know the holder of a lease. It never contains the proof of the lease.
pub(super) fn called(dialect: Number, owner: &Owner, metadata: Option<&[u8]>) -> String {
    match terraform::who(dialect, owner, metadata) {
        Some(who) => plain(&who).into(),
        None => plain(&shown(dialect, owner)).into(),
    }
}

/// Returns the name of an owner, followed by its authenticated principal if that is known and different.
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
    fn a_name_is_shown_with_its_authenticated_principal() {
        let owner = |principal: &str| Owner { principal: principal.into(), instance: "x".into() };
        assert_eq!(named(&owner(ANONYMOUS), "key:admin"), "key:admin");
        assert_eq!(named(&owner("key:ann"), "key:admin"), "key:admin (key:ann)");
        assert_eq!(named(&owner("key:ann"), "key:ann"), "key:ann");
        assert_eq!(named(&owner("key:ann"), ""), "key:ann");
    }

    #[test]
    fn a_proof_is_never_shown_whole() {
        for (proof, expected) in [
            ("b530956b-1111-2222", "b530956b..."),
            ("0123456789abcdef", "01234567..."),
            ("12345678", "1234..."),
            ("ab", "a..."),
            ("x", "..."),
        ] {
            assert_eq!(shortened(proof), expected);
            let owner = Owner { principal: "key:ann".into(), instance: proof.into() };
            for dialect in [Dialect::Terraform, Dialect::Redis] {
                assert_eq!(shown(dialect.number(), &owner), expected);
            }
            assert_eq!(shown(Dialect::Native.number(), &owner), proof);
        }
        let said = br#"{"ID":"b530956b-1111-2222","Who":"ann@laptop"}"#;
        let shown = shown_metadata(Dialect::Terraform.number(), said);
        assert_eq!(*shown, *br#"{"ID":"b530956b...","Who":"ann@laptop"}"#);
        assert_eq!(*shown_metadata(Dialect::Terraform.number(), b"b530956b-1111"), *b"null");
        assert_eq!(*shown_metadata(Dialect::Native.number(), said), *said);
    }

    #[test]
    fn a_name_is_shown_without_control_characters() {
        assert_eq!(plain("ann@laptop"), "ann@laptop");
        assert_eq!(plain("a\u{1b}[2Jb\nc\u{202e}d"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d");
    }
}
