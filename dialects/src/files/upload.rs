//! Checks of the headers that describe a request body, before the body is read.

use axum::http::{HeaderMap, header};
use leasehold_auth::Permitted;

use super::Files;
use super::error::Refusal;
use crate::content::{Content, ToWrite};

/// Returns the media type of the body, or `None` if it is missing or says nothing about the content.
pub(super) fn kind(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    said_kind(headers).map_err(Refusal::invalid)
}

/// Returns the media type for any dialect that stores files. The error is a message for the client.
pub(crate) fn said_kind(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(None) };
    let kind = kind.to_str().ok().filter(|kind| kind.contains('/'));
    let kind = kind.ok_or("the content type is not a media type")?;
    // curl sends this type by default, so it says nothing about the content.
    let is_telling = kind != "application/x-www-form-urlencoded";
    Ok(is_telling.then(|| kind.to_owned()))
}

/// Rejects encoded content, with a message for the client. Content is stored and served as received, so readers could
/// not decode it.
pub(crate) fn check_coding(headers: &HeaderMap) -> Result<(), &'static str> {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    match codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        true => Ok(()),
        false => Err("Content-Encoding is not supported: send the content as it is"),
    }
}

/// Rejects a body that is announced as too large before any of it is read. Returns whether nothing exists at the path
/// yet.
pub(super) async fn check_size(
    files: &Files,
    path: &Permitted<ToWrite>,
    n_bytes: u64,
) -> Result<bool, Refusal> {
    let bytes_max = files.app.dialect.files.bytes_max;
    if n_bytes > bytes_max {
        return Err(Refusal::too_large(bytes_max));
    }
    let path = path.to_read();
    let look = move |content: &dyn Content| {
        content.check_room(n_bytes)?;
        Ok(content.find(&path)?.is_none())
    };
    files.blocking(look).await
}
