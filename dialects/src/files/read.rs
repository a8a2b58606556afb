//! Sends files: the whole file, a part of it, or only that the client's copy is current.

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::condition::{self, Precondition};
use super::range::{self, Part};
use crate::content::{Facts, Readable};
use crate::http::answers::Sending;
use crate::http::stream;

/// Why no content is sent. Each dialect renders it in its own format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unserved {
    /// A condition of the request does not hold.
    Precondition,
    /// The file has only this many bytes, and the requested part begins after them.
    Beyond(u64),
}

/// Returns the response with the content of a file. `sending` was admitted before the file was opened.
pub(crate) fn answer(
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
    // Ranges apply only to requests with a response body, so `HEAD` ignores them.
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
    // The type was read from a header, so it is a valid header value.
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

/// Returns the headers of every response about a file. Any client with the right to write can upload files, which share
/// an origin with the server's own pages. So browsers must not run their content.
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

/// Returns the header that tells the client the size of the file, for ranges that begin after its end.
pub(crate) fn content_range(size: u64) -> [(header::HeaderName, String); 1] {
    [(header::CONTENT_RANGE, format!("bytes */{size}"))]
}
