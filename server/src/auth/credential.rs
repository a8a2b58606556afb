//! What a request shows to prove who asks.

use std::borrow::Cow;

use axum::http::{HeaderMap, HeaderValue, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Principal;
use super::policy::{DISTRUSTED, EXPIRED, PREFIX, Policy};
use crate::door::CertificateNames;

/// Longer ones are not looked at.
const BYTES_MAX: usize = 8 * 1024;

/// How long the id of a session of files is.
const SESSION_CHARS: usize = 84;

/// What a request shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Credential<'a> {
    /// Nothing.
    Nothing,
    /// An API key.
    Key(Cow<'a, str>),
    /// A token of somebody who is trusted to issue them.
    Token(&'a str),
    /// A name and a password of somebody else's: a proxy's, most likely.
    Basic,
    /// Something that only a dialect can know: the id of one of its sessions.
    Other,
}

/// Why nobody is believed.
pub(super) type Bad = &'static str;

/// There is at most one, or none is believed.
pub(super) fn of(headers: &HeaderMap) -> Result<Credential<'_>, Bad> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(Credential::Nothing),
        (Some(value), None) => parse(value),
        (Some(_), Some(_)) => Err("there is more than one Authorization header"),
    }
}

fn parse(value: &HeaderValue) -> Result<Credential<'_>, Bad> {
    if value.len() > BYTES_MAX {
        return Err("the Authorization header is longer than 8192 bytes");
    }
    let text = value.to_str().map_err(|_| "the Authorization header is not plain text")?;
    let (scheme, rest) =
        text.split_once(' ').ok_or("the Authorization header has no credential")?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(match rest {
            key if key.starts_with(PREFIX) => Credential::Key(key.into()),
            // It proves more than an issuer should learn.
            id if is_session(id) => Credential::Other,
            token => Credential::Token(token),
        });
    }
    if scheme.eq_ignore_ascii_case("basic") {
        let decoded = basic(rest).ok_or("the Basic credential is not base64")?;
        let (_, password) =
            decoded.split_once(':').ok_or("the Basic credential has no password")?;
        let is_key = password.starts_with(PREFIX);
        return Ok(if is_key {
            Credential::Key(password.to_owned().into())
        } else {
            Credential::Basic
        });
    }
    Err("the Authorization header must be Bearer, or Basic with an API key as the password")
}

/// `user:password`.
fn basic(encoded: &str) -> Option<String> {
    STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok())
}

/// The name somebody gives where nobody asks for a proof. Empty names are none, nor are those that a terminal would
/// obey.
pub(crate) fn basic_user(headers: &HeaderMap) -> Option<String> {
    let (scheme, rest) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let decoded = scheme.eq_ignore_ascii_case("basic").then(|| basic(rest.trim()))??;
    let (user, _) = decoded.split_once(':')?;
    let is_name = !user.is_empty() && !user.chars().any(char::is_control);
    is_name.then(|| user.to_owned())
}

/// Does it look like the id of a session of files?
fn is_session(text: &str) -> bool {
    text.len() == SESSION_CHARS && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whoever the client's certificate proves to ask, if `[mtls]` has certificates say that.
pub(super) fn of_certificate(
    policy: &Policy,
    shown: Option<&CertificateNames>,
    wall_ms: i64,
) -> Result<Option<Principal>, String> {
    match (shown, policy.mtls()) {
        (Some(names), Some(_)) if wall_ms >= names.ends_ms => Err(EXPIRED.into()),
        (Some(names), Some(mtls)) => mtls.principal(names),
        // It was let in by a CA that is not named any more.
        (Some(_), None) => Err(DISTRUSTED.into()),
        (None, _) => Ok(None),
    }
}

/// A wrong id and a wrong secret look the same.
pub(super) const UNKNOWN_KEY: Bad = "unknown API key";

/// A name and a password that no proxy has looked at.
pub(super) const NO_KEY: Bad = "a Basic credential was sent, but its password is no API key";

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(values: &[&str]) -> Result<Credential<'static>, Bad> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().expect("a value"));
        }
        of(&headers).map(|shown| match shown {
            Credential::Key(key) => Credential::Key(key.into_owned().into()),
            Credential::Token(token) => Credential::Token(token.to_owned().leak()),
            Credential::Nothing => Credential::Nothing,
            Credential::Basic => Credential::Basic,
            Credential::Other => Credential::Other,
        })
    }

    #[test]
    fn one_credential_is_taken_as_it_is_meant() {
        let key = || Ok(Credential::Key("lh_a_b".into()));
        assert_eq!(shown(&[]), Ok(Credential::Nothing));
        assert_eq!(shown(&["Bearer lh_a_b"]), key());
        assert_eq!(shown(&["bEARER  lh_a_b "]), key());
        assert_eq!(shown(&["Basic dTpsaF9hX2I="]), key());
        assert_eq!(shown(&["Bearer 0123"]), Ok(Credential::Token("0123")));
        let session = format!("Bearer {}", "0a".repeat(42));
        assert_eq!(shown(&[&session]), Ok(Credential::Other));
        assert_eq!(shown(&["Basic dTpzZWNyZXQ="]), Ok(Credential::Basic));
    }

    #[test]
    fn what_two_could_read_in_two_ways_is_nobodys() {
        let huge = format!("Bearer lh_a_{}", "b".repeat(9000));
        for values in [
            &["Bearer lh_a_b", "Bearer lh_a_b"][..],
            &["Bearer lh_a_b", "Basic dTpsaF9hX2I="],
            &[&huge],
            &["Basic !!"],
            &["Basic dQ=="],
            &["Digest x"],
            &["Bearer"],
            &[""],
        ] {
            assert!(shown(values).is_err(), "{values:?}");
        }
    }
}
