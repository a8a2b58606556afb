//! What a request says of its body before it comes.

use axum::http::{HeaderMap, header};
use leasehold_auth::Permitted;

use super::Files;
use super::error::Refusal;
use crate::content::{Content, ToWrite};

/// What a request says its body is. `None`: nothing worth keeping.
pub(super) fn kind(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    said_kind(headers).map_err(Refusal::invalid)
}

/// The same for every dialect that takes files; or what is wrong with it, in words.
pub(in crate::dialect) fn said_kind(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(None) };
    let kind = kind.to_str().ok().filter(|kind| kind.contains('/'));
    let kind = kind.ok_or("the content type is not a media type")?;
    // What curl says of everything says nothing.
    let is_telling = kind != "application/x-www-form-urlencoded";
    Ok(is_telling.then(|| kind.to_owned()))
}

/// Content is kept as it comes and sent as it is kept: compressed, nobody could read it. What is wrong, in words.
pub(in crate::dialect) fn check_coding(headers: &HeaderMap) -> Result<(), &'static str> {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    match codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        true => Ok(()),
        false => Err("Content-Encoding is not supported: send the content as it is"),
    }
}

/// Refuses what is said to be too large before any of it has come. Is nothing at its path yet?
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
