//! Parses signed tokens (JWS, RFC 7515), before their signature is checked.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::json;
use super::key::Algorithm;

/// Header members that are rejected, because they would let the token control how it is verified.
///
/// Thumbprints (`x5t`), which many issuers include, are harmless and ignored.
const FORBIDDEN: [&str; 7] = ["crit", "jku", "jwk", "x5u", "cty", "zip", "b64"];

/// A signed token whose signature has not been checked yet.
pub(super) struct Token<'a> {
    /// The signed part of the token.
    pub(super) message: &'a [u8],
    pub(super) signature: Vec<u8>,
    pub(super) algorithm: Algorithm,
    pub(super) key_id: Option<String>,
    pub(super) claims: Map<String, Value>,
}

/// Returns whether the text has the form of a signed token. All other tokens are opaque.
pub(super) fn is_signed(text: &str) -> bool {
    text.bytes().filter(|byte| *byte == b'.').count() == 2
}

impl<'a> Token<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, &'static str> {
        let mut parts = text.split('.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err("the token is not a signed token: it does not have three parts");
        };
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let object = |part: &str| decode(part).and_then(|bytes| json::object(&bytes));
        let head = object(header).ok_or("the token's header is not a JSON object")?;
        if FORBIDDEN.iter().any(|name| head.contains_key(*name)) {
            return Err(
                "the token's header has a forbidden parameter: a key, a key URL, crit, cty or zip",
            );
        }
        let kind = head.get("typ").map(|kind| kind.as_str().unwrap_or("?").to_ascii_lowercase());
        if !matches!(kind.as_deref(), None | Some("jwt" | "at+jwt" | "application/at+jwt")) {
            return Err("the token has the wrong type: typ must be JWT or at+jwt");
        }
        let algorithm = head.get("alg").and_then(Value::as_str).and_then(Algorithm::parse);
        let key_id = match head.get("kid") {
            None => None,
            Some(Value::String(id)) => Some(id.clone()),
            Some(_) => return Err("the token's kid is not a string"),
        };
        Ok(Self {
            message: &text.as_bytes()[..header.len() + 1 + claims.len()],
            signature: decode(signature).ok_or("the token's signature is not base64url")?,
            algorithm: algorithm.ok_or("the token's algorithm is not allowed")?,
            key_id,
            claims: object(claims)
                .ok_or("the token's claims are not a JSON object, or a claim appears twice")?,
        })
    }

    /// Returns the issuer that the token claims to be from.
    pub(super) fn issuer(&self) -> Option<&str> {
        self.claims.get("iss").and_then(Value::as_str)
    }
}
