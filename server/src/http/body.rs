//! Request bodies: JSON, of bounded size, in bounded time, with the field named that is wrong.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, IgnoredAny};

/// Why a body could not be used. Each dialect says it in its own shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum BadBody {
    /// It is said to be something else than JSON.
    NotJson(String),
    /// It is too large.
    TooLarge(usize),
    /// It took too long, or broke off.
    Incomplete,
    /// It is no JSON at all.
    Syntax(String),
    /// This field is missing, ill-typed or unknown.
    Field(String),
}

impl std::fmt::Display for BadBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadBody::NotJson(kind) => write!(f, "the body must be application/json, not {kind}"),
            BadBody::TooLarge(max) => write!(f, "the body is larger than {max} bytes"),
            BadBody::Incomplete => f.write_str("the body did not arrive in time"),
            BadBody::Syntax(why) => write!(f, "the body is not JSON: {why}"),
            BadBody::Field(why) => f.write_str(why),
        }
    }
}

/// Reads and parses a request's body.
pub(crate) async fn json<T: DeserializeOwned>(
    request: Request,
    bytes_max: usize,
    timeout: Duration,
) -> Result<T, BadBody> {
    check_type(&request)?;
    let bytes = read(request.into_body(), bytes_max, timeout).await?;
    parse(&bytes)
}

fn check_type(request: &Request) -> Result<(), BadBody> {
    let Some(kind) = request.headers().get(CONTENT_TYPE) else { return Ok(()) };
    let kind = String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    let is_json = essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"));
    if is_json { Ok(()) } else { Err(BadBody::NotJson(kind)) }
}

async fn read(body: Body, bytes_max: usize, timeout: Duration) -> Result<Bytes, BadBody> {
    let collected = tokio::time::timeout(timeout, Limited::new(body, bytes_max).collect()).await;
    match collected.map_err(|_| BadBody::Incomplete)? {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(BadBody::TooLarge(bytes_max)),
        Err(_) => Err(BadBody::Incomplete),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BadBody> {
    // Serde would take an array for an object whose members are in order.
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let is_object = first.is_none_or(|first| *first == b'{');
    if !is_object && serde_json::from_slice::<IgnoredAny>(bytes).is_ok() {
        return Err(BadBody::Field("the body must be a JSON object".into()));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        match inner.classify() {
            serde_json::error::Category::Data if path == "." => BadBody::Field(inner.to_string()),
            serde_json::error::Category::Data => BadBody::Field(format!("{path}: {inner}")),
            _ => BadBody::Syntax(inner.to_string()),
        }
    })?;
    deserializer.end().map_err(|error| BadBody::Syntax(error.to_string()))?;
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, Debug, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Question {
        owner_id: String,
        ttl_ms: u64,
    }

    #[test]
    fn what_is_wrong_is_named() {
        let why = |text: &str| parse::<Question>(text.as_bytes()).unwrap_err().to_string();
        assert!(why(r#"{"owner_id":"a"}"#).contains("ttl_ms"));
        assert!(why(r#"{"owner_id":"a","ttl_ms":"5"}"#).starts_with("ttl_ms"));
        assert!(why(r#"{"owner_id":"a","ttl_ms":-5}"#).starts_with("ttl_ms"));
        assert!(why(r#"{"owner_id":"a","ttl_ms":1.5}"#).starts_with("ttl_ms"));
        assert!(why(r#"{"owner_id":"a","ttl_ms":5,"x":1}"#).contains('x'));
        assert!(why(r#"{"owner_id":"a","owner_id":"b","ttl_ms":5}"#).contains("owner_id"));
        assert_eq!(why(r#" ["a",5]"#), "the body must be a JSON object");
        assert!(why("").starts_with("the body is not JSON"));
        assert!(why(r#"{"owner_id":"a","ttl_ms":5} x"#).starts_with("the body is not JSON"));
    }
}
