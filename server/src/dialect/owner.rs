//! The owner a request speaks for, and how one is shown to others.

use std::borrow::Cow;

use leasehold_core::{Dialect as Number, Owner};

use super::{Dialect, terraform};
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

/// The owner as other readers may see it. If the owner proves the lock, only its beginning is shown.
pub(crate) fn shown(dialect: Number, owner: &Owner) -> Cow<'_, str> {
    let is_of = |known: Dialect| known.number() == dialect;
    let is_proof = is_of(Dialect::Redis)
        || is_of(Dialect::Terraform) && !owner.instance.starts_with(terraform::WITHOUT_LOCK);
    if is_proof { shortened(&owner.instance).into() } else { Cow::Borrowed(&owner.instance) }
}

/// The metadata of a lock as other readers may see it.
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

/// What the holder of a lease calls itself, for others: never what would prove that they are it.
pub(super) fn called(dialect: Number, owner: &Owner, metadata: Option<&[u8]>) -> String {
    match terraform::who(dialect, owner, metadata) {
        Some(who) => plain(&who).into(),
        None => plain(&shown(dialect, owner)).into(),
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
    fn a_name_does_nothing_to_a_terminal() {
        assert_eq!(plain("ann@laptop"), "ann@laptop");
        assert_eq!(plain("a\u{1b}[2Jb\nc\u{202e}d"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d");
    }
}
