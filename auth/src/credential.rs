//! Extracts the credential from a request's `Authorization` header.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};

use super::policy::{DISTRUSTED, EXPIRED, PREFIX, Policy};
use super::{CertificateNames, Principal};

/// Maximum length of the `Authorization` header.
const BYTES_MAX: usize = 8 * 1024;

/// Length of a session id of the files dialect.
const SESSION_CHARS: usize = 84;

/// The credential in a request's `Authorization` header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Credential<'a> {
    /// The request has no `Authorization` header.
    Nothing,
    /// An API key.
    Key(Cow<'a, str>),
    /// A bearer token, to be checked by its issuer.
    Token(&'a str),
    /// A user name and a password that is not an API key; most likely meant for a proxy.
    Basic,
    /// A session id, which only its dialect can interpret.
    Other,
}

/// The reason why a credential is rejected.
pub(super) type Bad = &'static str;

/// Returns the credential in the headers. Fails if there is more than one `Authorization` header.
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
            // A session id is itself a credential, so it must not be sent to an issuer.
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

/// Decodes a Basic credential to `user:password`.
fn basic(encoded: &str) -> Option<String> {
    STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok())
}

/// Returns the user name of a Basic credential, for a server without authentication. Returns `None` for empty names and
/// names with control characters, which could affect a terminal.
pub fn basic_user(headers: &HeaderMap) -> Option<String> {
    let (scheme, rest) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let decoded = scheme.eq_ignore_ascii_case("basic").then(|| basic(rest.trim()))??;
    let (user, _) = decoded.split_once(':')?;
    let is_name = !user.is_empty() && !user.chars().any(char::is_control);
    is_name.then(|| user.to_owned())
}

/// Returns whether the text has the form of a session id of the files dialect.
fn is_session(text: &str) -> bool {
    text.len() == SESSION_CHARS && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the principal that the client certificate proves, if `[mtls]` derives principals from certificates.
pub(super) fn of_certificate(
    policy: &Policy,
    shown: Option<&CertificateNames>,
    wall_ms: i64,
) -> Result<Option<Principal>, String> {
    match (shown, policy.mtls()) {
        (Some(names), Some(_)) if wall_ms >= names.ends_ms => Err(EXPIRED.into()),
        (Some(names), Some(mtls)) => mtls.principal(names),
        // The certificate was accepted under a CA that is no longer configured.
        (Some(_), None) => Err(DISTRUSTED.into()),
        (None, _) => Ok(None),
    }
}

/// The error for a wrong key id and for a wrong secret: a client cannot distinguish the two.
pub(super) const UNKNOWN_KEY: Bad = "unknown API key";

/// The error for a Basic credential that carries no API key and was not checked by a proxy.
pub(super) const NO_KEY: Bad = "the Basic credential's password is not an API key";

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
    fn an_ambiguous_credential_identifies_no_principal() {
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
