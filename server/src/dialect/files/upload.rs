//! What a request says of its body before it comes.

use axum::http::{HeaderMap, header};

use super::Files;
use super::error::Refusal;

/// What a request says its body is. `None`: nothing worth keeping.
pub(super) fn kind(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(None) };
    let kind = kind.to_str().ok().filter(|kind| kind.contains('/'));
    let kind = kind.ok_or_else(|| Refusal::invalid("the content type is not a media type"))?;
    // What curl says of everything says nothing.
    let is_telling = kind != "application/x-www-form-urlencoded";
    Ok(is_telling.then(|| kind.to_owned()))
}

/// Refuses what is said to be too large before any of it has come.
pub(super) async fn check_size(files: &Files, n_bytes: u64) -> Result<(), Refusal> {
    let bytes_max = files.app.dialect.files.bytes_max;
    if n_bytes > bytes_max {
        return Err(Refusal::too_large(bytes_max));
    }
    files.blocking(move |content| content.check_room(n_bytes)).await
}
