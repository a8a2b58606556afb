//! Reading files: whole or a part, or not at all if the reader has them already.

use std::io::SeekFrom;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::condition::{self, Precondition};
use super::content::{Facts, Readable};
use super::error::Refusal;
use super::range::{self, Part};

/// Read at once.
const PIECE_BYTES: usize = 256 * 1024;
/// Pieces read ahead of a slow reader.
const PIECES_AHEAD: usize = 1;

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

/// Sends a part of a file, reading only a little ahead. A reader that goes away ends it.
fn stream(mut content: Box<dyn Readable>, first: u64, length: u64) -> Body {
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    tokio::spawn(async move {
        let (mut at, end) = (first, first + length);
        while at < end {
            let n = usize::try_from(end - at).unwrap_or(usize::MAX).min(PIECE_BYTES);
            let reading = tokio::task::spawn_blocking(move || {
                let piece = read(&mut *content, at, n);
                (content, piece)
            });
            let Ok((back, piece)) = reading.await else { return };
            content = back;
            at += n as u64;
            let is_broken = piece.is_err();
            if sender.send(piece).await.is_err() || is_broken {
                return;
            }
        }
    });
    Body::from_stream(ReceiverStream::new(receiver))
}

fn read(content: &mut dyn Readable, at: u64, n: usize) -> std::io::Result<Bytes> {
    let mut piece = vec![0; n];
    content.seek(SeekFrom::Start(at))?;
    content.read_exact(&mut piece)?;
    Ok(piece.into())
}
