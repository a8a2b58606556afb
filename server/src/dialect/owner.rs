//! The owner in whose name a request acts, and how owners are shown to others.

use std::borrow::Cow;

use leasehold_auth::{ANONYMOUS, Caller};
use leasehold_core::{Dialect as Number, Owner};

use super::{Dialect, terraform};
use crate::http::html::is_hidden;

/// Returns an owner: the authenticated principal, and the program or machine that the client names.
pub(super) fn of(caller: &Caller, instance: &str) -> Owner {
    Owner { principal: caller.principal().name().clone(), instance: instance.into() }
}

/// Returns the principal of an owner, if a credential proved it. Owners with the same instance but different
/// principals are different owners.
pub(crate) fn vouched(owner: &Owner) -> Option<&str> {
    (*owner.principal != *ANONYMOUS).then_some(&*owner.principal)
}

/// Returns a client-chosen name without control characters, so that it is safe to print on other people's terminals.
pub(super) fn plain(name: &str) -> Cow<'_, str> {
    if !name.contains(is_hidden) {
        return name.into();
    }
    name.replace(is_hidden, "\u{fffd}").into()
}

/// Returns the owner as other readers see it. If the owner's name proves the lock, only its beginning is returned.
pub(crate) fn shown(dialect: Number, owner: &Owner) -> Cow<'_, str> {
    let is_of = |known: Dialect| known.number() == dialect;
    let is_proof = is_of(Dialect::Redis)
        || is_of(Dialect::Terraform) && !owner.instance.starts_with(terraform::WITHOUT_LOCK);
    if is_proof { shortened(&owner.instance).into() } else { Cow::Borrowed(&owner.instance) }
}

/// Returns the metadata of a lock as other readers see it.
pub(crate) fn shown_metadata(dialect: Number, metadata: &[u8]) -> Cow<'_, [u8]> {
    if dialect != Dialect::Terraform.number() {
        metadata.into()
    } else {
        terraform::shown(metadata).into()
    }
}

/// Maximum characters of a proof that are shown, but at most half of it: enough to recognize it, too few to prove the
/// lock.
const SHOWN_CHARS: usize = 8;

/// Returns the beginning of a proof.
pub(super) fn shortened(proof: &str) -> String {
    let n_shown = SHOWN_CHARS.min(proof.chars().count() / 2);
    let shown: String = proof.chars().take(n_shown).collect();
    format!("{shown}...")
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
