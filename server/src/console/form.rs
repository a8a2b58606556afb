//! Reads HTML forms.

use axum::body::Body;
use axum::http::{HeaderMap, header};
use serde::de::DeserializeOwned;

use crate::host::Host;
use crate::http::body;

/// Returns the fields of a form of at most `n_bytes_max` bytes, or a message that describes the error.
pub(super) async fn read<T: DeserializeOwned>(
    app: &Host,
    body: Body,
    n_bytes_max: usize,
) -> Result<T, String> {
    let read = body::read(body, n_bytes_max, app.http.body_timeout).await;
    let read = read.map_err(|why| why.to_string())?;
    let text = str::from_utf8(&read).ok().and_then(|text| format!("/?{text}").parse().ok());
    let uri = text.ok_or("the form is not percent-encoded")?;
    crate::dialect::query::parse(&uri).map_err(|why| why.replace("the query", "the form"))
}

/// Checks the content type. Browsers send forms with it, and no other client uses it by accident.
pub(super) fn check_kind(headers: &HeaderMap) -> Result<(), String> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    match kind {
        Some("application/x-www-form-urlencoded") => Ok(()),
        _ => Err("Content-Type must be application/x-www-form-urlencoded".into()),
    }
}
