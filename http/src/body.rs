//! Reads JSON request bodies of limited size within a time limit. Errors name the invalid field.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::header::{CONTENT_TYPE, ORIGIN};
use axum::http::{HeaderName, Request, StatusCode};
use http_body_util::BodyExt;
use leasehold_base::duration;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::mistake;

/// Why a body is rejected. Each dialect renders it in its own format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadBody {
    /// The Content-Type is not JSON.
    NotJson(String),
    /// The body is larger than this limit in bytes.
    TooLarge(usize),
    /// The body did not arrive within this time.
    Late(Duration),
    /// The body ended early, or its framing is invalid.
    Malformed,
    /// The body is not valid JSON.
    Syntax(String),
    /// A field is missing, unknown or of the wrong type.
    Field(String),
}

impl BadBody {
    /// The status, which is the same in every dialect.
    pub fn status(&self) -> StatusCode {
        match self {
            BadBody::NotJson(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            BadBody::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            BadBody::Late(_) => StatusCode::REQUEST_TIMEOUT,
            BadBody::Malformed | BadBody::Syntax(_) | BadBody::Field(_) => StatusCode::BAD_REQUEST,
        }
    }
}

impl std::fmt::Display for BadBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadBody::NotJson(kind) => {
                write!(f, "Content-Type must be application/json, got {kind}")
            }
            BadBody::TooLarge(max) => {
                write!(f, "the body is larger than {max} bytes (body-bytes-max)")
            }
            BadBody::Late(max) => {
                write!(f, "the body did not arrive within {} (body-timeout)", duration::shown(*max))
            }
            BadBody::Malformed => f.write_str("the body broke off, or its chunks are malformed"),
            BadBody::Syntax(why) => write!(f, "the body is not JSON: {why}"),
            BadBody::Field(why) => f.write_str(why),
        }
    }
}

/// Reads and parses a request body.
pub async fn json<T, B>(
    request: Request<B>,
    bytes_max: usize,
    timeout: Duration,
) -> Result<T, BadBody>
where
    T: DeserializeOwned,
    B: HttpBody<Data = Bytes>,
{
    check_type(&request)?;
    let bytes = read(request.into_body(), bytes_max, timeout).await?;
    parse(&bytes)
}

fn check_type<B>(request: &Request<B>) -> Result<(), BadBody> {
    let Some(kind) = request.headers().get(CONTENT_TYPE) else {
        // A web page can make a browser send a body without a content type, but not one that is declared as JSON. So
        // only requests from pages need the declaration.
        let marks = |name: &HeaderName| *name == ORIGIN || name.as_str().starts_with("sec-fetch-");
        let is_browser = request.headers().keys().any(marks);
        return if is_browser { Err(BadBody::NotJson("nothing".into())) } else { Ok(()) };
    };
    if kind == "application/json" {
        return Ok(());
    }
    let kind = String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    let is_json = essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"));
    if is_json { Ok(()) } else { Err(BadBody::NotJson(kind)) }
}

/// Reads the whole body, up to a size and within a time limit.
pub async fn read<B>(body: B, bytes_max: usize, timeout: Duration) -> Result<Bytes, BadBody>
where
    B: HttpBody<Data = Bytes>,
{
    // Rejects a body that is announced as too large before reading any of it. A client that sends `Expect:
    // 100-continue` then never sends it. For other clients, the connection discards input for a while after the
    // response.
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(BadBody::TooLarge(bytes_max));
    }
    let mut collecting = pin!(collect(body, bytes_max));
    // A body that has already arrived needs no timer.
    let at_once = poll_fn(|context| Poll::Ready(collecting.as_mut().poll(context))).await;
    if let Poll::Ready(all) = at_once {
        return all;
    }
    tokio::time::timeout(timeout, collecting).await.map_err(|_| BadBody::Late(timeout))?
}

async fn collect<B>(body: B, bytes_max: usize) -> Result<Bytes, BadBody>
where
    B: HttpBody<Data = Bytes>,
{
    let mut body = pin!(body);
    // A body nearly always consists of one piece, which is not copied.
    let (mut first, mut rest) = (Bytes::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(|_| BadBody::Malformed)?.into_data() else { continue };
        if first.len() + rest.len() + piece.len() > bytes_max {
            return Err(BadBody::TooLarge(bytes_max));
        }
        if first.is_empty() {
            first = piece;
        } else {
            rest.extend_from_slice(&piece);
        }
    }
    if rest.is_empty() { Ok(first) } else { Ok([&first[..], &rest].concat().into()) }
}

/// Parses a body as JSON.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BadBody> {
    // Serde would accept an array in place of an object, with the members in order.
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let is_object = first.is_none_or(|first| *first == b'{');
    if !is_object && serde_json::from_slice::<IgnoredAny>(bytes).is_ok() {
        return Err(BadBody::Field("the body must be a JSON object".into()));
    }
    // Tracking the position of an error is slow, so the body is parsed again only after an error.
    serde_json::from_slice(bytes).or_else(|_| parse_and_explain(bytes))
}

fn parse_and_explain<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BadBody> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        match inner.classify() {
            serde_json::error::Category::Data if path == "." => BadBody::Field(inner.to_string()),
            serde_json::error::Category::Data => {
                BadBody::Field(format!("{path}: {}", mistake::in_words(&inner.to_string())))
            }
            _ if inner.to_string().starts_with("recursion limit exceeded") => {
                BadBody::Field("the body is nested deeper than 127 levels".into())
            }
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
        #[serde(default)]
        metadata: serde_json::Value,
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
        let deep = format!("{{\"owner_id\":\"a\",\"metadata\":{}", "[".repeat(1_000));
        assert_eq!(why(&deep), "the body is nested deeper than 127 levels");
        assert!(why(r#"{"owner_id":"a","ttl_ms":5} x"#).starts_with("the body is not JSON"));
    }
}
