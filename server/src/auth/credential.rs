//! What a request shows to prove who asks.

use axum::http::{HeaderMap, HeaderValue, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::policy::PREFIX;

/// Longer ones are not looked at.
const BYTES_MAX: usize = 8 * 1024;

/// What a request shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Credential {
    /// Nothing.
    Nothing,
    /// An API key.
    Key(String),
    /// Something that only a dialect can know: the id of one of its sessions.
    Other,
}

/// Why nobody is believed.
pub(super) type Bad = &'static str;

/// There is at most one, or none is believed.
pub(super) fn of(headers: &HeaderMap) -> Result<Credential, Bad> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(Credential::Nothing),
        (Some(value), None) => parse(value),
        (Some(_), Some(_)) => Err("there is more than one Authorization header"),
    }
}

fn parse(value: &HeaderValue) -> Result<Credential, Bad> {
    if value.len() > BYTES_MAX {
        return Err("the Authorization header is longer than 8192 bytes");
    }
    let text = value.to_str().map_err(|_| "the Authorization header is not plain text")?;
    let (scheme, rest) =
        text.split_once(' ').ok_or("the Authorization header has no credential")?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        let is_key = rest.starts_with(PREFIX);
        return Ok(if is_key { Credential::Key(rest.into()) } else { Credential::Other });
    }
    if scheme.eq_ignore_ascii_case("basic") {
        let decoded = STANDARD.decode(rest).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let decoded = decoded.ok_or("the Basic credential is not base64")?;
        let (_, password) =
            decoded.split_once(':').ok_or("the Basic credential has no password")?;
        let is_key = password.starts_with(PREFIX);
        return is_key.then(|| Credential::Key(password.into())).ok_or(UNKNOWN_KEY);
    }
    Err("the Authorization header must be Bearer, or Basic with an API key as the password")
}

/// A wrong id and a wrong secret look the same.
pub(super) const UNKNOWN_KEY: Bad = "unknown API key";

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(values: &[&str]) -> Result<Credential, Bad> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().expect("a value"));
        }
        of(&headers)
    }

    #[test]
    fn one_credential_is_taken_as_it_is_meant() {
        let key = || Ok(Credential::Key("lh_a_b".into()));
        assert_eq!(shown(&[]), Ok(Credential::Nothing));
        assert_eq!(shown(&["Bearer lh_a_b"]), key());
        assert_eq!(shown(&["bEARER  lh_a_b "]), key());
        assert_eq!(shown(&["Basic dTpsaF9hX2I="]), key());
        assert_eq!(shown(&["Bearer 0123"]), Ok(Credential::Other));
    }

    #[test]
    fn what_two_could_read_in_two_ways_is_nobodys() {
        let huge = format!("Bearer lh_a_{}", "b".repeat(9000));
        for values in [
            &["Bearer lh_a_b", "Bearer lh_a_b"][..],
            &["Bearer lh_a_b", "Basic dTpsaF9hX2I="],
            &[&huge],
            &["Basic dTpzZWNyZXQ="],
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
