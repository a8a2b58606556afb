//! Request bodies: JSON, of bounded size, in bounded time, with the field named that is wrong.

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

/// Why a body could not be used. Each dialect says it in its own shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum BadBody {
    /// Its Content-Type names something other than JSON.
    NotJson(String),
    /// It is too large.
    TooLarge(usize),
    /// It took too long.
    Late(Duration),
    /// It broke off, or is not framed as HTTP says.
    Malformed,
    /// It is no JSON at all.
    Syntax(String),
    /// This field is missing, ill-typed or unknown.
    Field(String),
}

impl BadBody {
    /// The same in every dialect.
    pub(crate) fn status(&self) -> StatusCode {
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

/// Reads and parses a request's body.
pub(crate) async fn json<T, B>(
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
        // A page can have a browser send a body without saying what it is, but not one that says it is JSON.
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

/// The whole body, of bounded size and in bounded time.
pub(crate) async fn read<B>(body: B, bytes_max: usize, timeout: Duration) -> Result<Bytes, BadBody>
where
    B: HttpBody<Data = Bytes>,
{
    // Not a byte of what is said to be too large is taken. A client that asks first never sends it; to the others the
    // connection still listens for a while after the answer.
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(BadBody::TooLarge(bytes_max));
    }
    let mut collecting = pin!(collect(body, bytes_max));
    // What is there already needs no timer.
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
    // Nearly always there is one piece, and it is not copied.
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

pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BadBody> {
    // Serde would take an array for an object whose members are in order.
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let is_object = first.is_none_or(|first| *first == b'{');
    if !is_object && serde_json::from_slice::<IgnoredAny>(bytes).is_ok() {
        return Err(BadBody::Field("the body must be a JSON object".into()));
    }
    // Keeping track of where a mistake is takes time. So it is looked for only once there is one.
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
