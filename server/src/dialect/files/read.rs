//! Reading files: whole or a part, or not at all if the reader has them already.

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::condition::{self, Precondition};
use super::range::{self, Part};
use crate::content::{Facts, Readable, stream};
use crate::http::answers::Sending;

/// Why nothing of a file is sent. Each dialect says it in its own shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::dialect) enum Unserved {
    /// A condition of the request does not hold.
    Precondition,
    /// It has no more than this many bytes, and the part that was asked for begins after them.
    Beyond(u64),
}

/// A file as an answer. `sending` was taken before the file was opened.
pub(in crate::dialect) fn answer(
    headers: &HeaderMap,
    facts: &Facts,
    content: Box<dyn Readable>,
    sending: Sending,
    is_head: bool,
) -> Result<Response, Unserved> {
    match condition::of_read(headers, facts) {
        Precondition::Fails => return Err(Unserved::Precondition),
        Precondition::NotModified => {
            return Ok((StatusCode::NOT_MODIFIED, described(facts), ()).into_response());
        }
        Precondition::Holds => {}
    }
    // A part of nothing is asked for only by those who want a body.
    let is_part = !is_head && condition::range_holds(headers, facts);
    let part = if is_part { range::of(headers, facts.size) } else { Part::Whole };
    let (status, first, length) = match part {
        Part::Beyond => return Err(Unserved::Beyond(facts.size)),
        Part::Whole => (StatusCode::OK, 0, facts.size),
        Part::Bytes(first, last) => (StatusCode::PARTIAL_CONTENT, first, last - first + 1),
    };
    let body = if is_head { Body::empty() } else { stream(content, first, length, sending) };
    let mut response = (status, described(facts), body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, length.into());
    // A media type that cannot be said in a header was never accepted in one.
    if let Ok(kind) = facts.kind.parse() {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    if let Part::Bytes(first, last) = part
        && let Ok(range) = format!("bytes {first}-{last}/{}", facts.size).parse()
    {
        headers.insert(header::CONTENT_RANGE, range);
    }
    Ok(response)
}

/// What is said of a file whatever is sent of it. Files come from anybody and are shown beside the server's own
/// pages: a browser must not run them.
fn described(facts: &Facts) -> impl axum::response::IntoResponseParts + use<> {
    [
        (header::ETAG, condition::tag(facts)),
        (header::LAST_MODIFIED, condition::date(facts.modified_ms)),
        (header::ACCEPT_RANGES, "bytes".into()),
        (header::CACHE_CONTROL, "no-cache".into()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".into()),
        (header::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'".into()),
    ]
}

/// Where a part would have to begin, for those who asked for one beyond the end.
pub(in crate::dialect) fn content_range(size: u64) -> [(header::HeaderName, String); 1] {
    [(header::CONTENT_RANGE, format!("bytes */{size}"))]
}
