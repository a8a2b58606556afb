//! Query parameters. Each dialect reports errors in its own format.

use std::borrow::Cow;

use axum::extract::Query;
use axum::http::Uri;
use serde::de::DeserializeOwned;

use crate::http::mistake;

/// Returns the percent-decoded parameters, or an error message.
pub fn parse<T: DeserializeOwned>(uri: &Uri) -> Result<T, String> {
    if !is_text(uri.query().unwrap_or_default()) {
        return Err("the query: is not percent-encoded UTF-8".into());
    }
    let parsed = Query::try_from_uri(uri);
    let Query(parameters) = parsed.map_err(|error| {
        let why = error.body_text();
        let why = why.strip_prefix("Failed to deserialize query string: ").unwrap_or(&why);
        format!("the query: {}", mistake::in_words(why))
    })?;
    Ok(parameters)
}

/// Checks that a call without parameters has none. The error names the first one.
pub(super) fn none(uri: &Uri) -> Result<(), String> {
    let Some(query) = uri.query().filter(|query| !query.is_empty()) else { return Ok(()) };
    let name = query.split(['&', '=']).find(|name| !name.is_empty()).unwrap_or(query);
    Err(format!(
        "the query: unknown parameter `{}`: this call takes none",
        mistake::shortened(name)
    ))
}

/// Returns whether a query is UTF-8. The decoder would replace every invalid sequence with the same character, so two
/// different names could become the same.
fn is_text(query: &str) -> bool {
    let mut decoded = Vec::with_capacity(query.len());
    let mut pieces = query.split('%');
    decoded.extend_from_slice(pieces.next().unwrap_or_default().as_bytes());
    for piece in pieces {
        let hex = piece.get(..2).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) else { return false };
        decoded.push(byte);
        decoded.extend_from_slice(&piece.as_bytes()[2..]);
    }
    matches!(String::from_utf8_lossy(&decoded), Cow::Borrowed(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_too_many_is_named() {
        let why = |target: &str| none(&target.parse().expect("a target")).err();
        assert_eq!(why("/v1/revoke"), None);
        assert_eq!(why("/v1/revoke?"), None);
        let named = "the query: unknown parameter `dry_run`: this call takes none";
        assert_eq!(why("/v1/revoke?dry_run=true&x=1").as_deref(), Some(named));
        assert_eq!(why("/v1/revoke?&dry_run").as_deref(), Some(named));
    }

    #[test]
    fn a_query_is_text_or_it_is_nothing() {
        for query in ["", "client=a", "client=%C3%A9&ttl=5%c2%b5s", "client=é", "a=%25", "a=%00"] {
            assert!(is_text(query), "{query}");
        }
        for query in ["client=%", "client=%4", "client=%zz", "client=%é", "client=%FF", "a=%C3&b"]
        {
            assert!(!is_text(query), "{query}");
        }
    }
}
