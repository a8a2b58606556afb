//! Reading files: whole or a part, or not at all if the reader has them already.

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::condition::{self, Precondition};
use super::error::Refusal;
use super::range::{self, Part};
use crate::content::{Facts, Readable, stream};

/// A file as an answer.
pub(super) fn answer(
    headers: &HeaderMap,
    facts: &Facts,
    content: Box<dyn Readable>,
    is_head: bool,
) -> Result<Response, Refusal> {
    match condition::of_read(headers, facts) {
        Precondition::Fails => return Err(Refusal::precondition()),
        Precondition::NotModified => {
            return Ok((StatusCode::NOT_MODIFIED, described(facts), ()).into_response());
        }
        Precondition::Holds => {}
    }
    // A part of nothing is asked for only by those who want a body.
    let is_part = !is_head && condition::range_holds(headers, facts);
    let part = if is_part { range::of(headers, facts.size) } else { Part::Whole };
    let (status, first, length) = match part {
        Part::Beyond => return Ok(beyond(facts)),
        Part::Whole => (StatusCode::OK, 0, facts.size),
        Part::Bytes(first, last) => (StatusCode::PARTIAL_CONTENT, first, last - first + 1),
    };
    let body = if is_head { Body::empty() } else { stream(content, first, length) };
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
        (header::LAST_MODIFIED, condition::date(facts)),
        (header::ACCEPT_RANGES, "bytes".into()),
        (header::CACHE_CONTROL, "no-cache".into()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".into()),
        (header::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'".into()),
    ]
}

fn beyond(facts: &Facts) -> Response {
    let message = format!("the file has {} bytes", facts.size);
    let refusal = Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, "No such range", message);
    ([(header::CONTENT_RANGE, format!("bytes */{}", facts.size))], refusal).into_response()
}
