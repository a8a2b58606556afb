//! Names in request paths. Each dialect reports errors in its own format.

use std::collections::HashMap;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::app::App;

/// Returns the percent-decoded names in the path, or an error message.
pub(super) async fn names(parts: &mut Parts, app: &App) -> Result<HashMap<String, String>, String> {
    if !is_encoded(parts.uri.path()) {
        return Err("the path: a % is not followed by two hexadecimal digits".into());
    }
    let Path(names) =
        Path::from_request_parts(parts, app).await.map_err(|error| wrong(&error.body_text()))?;
    Ok(names)
}

fn wrong(parser_says: &str) -> String {
    match parser_says.strip_prefix("Invalid URL: Invalid UTF-8 in ") {
        Some(name) => format!("the path: {name} is not percent-encoded UTF-8"),
        None => format!("the path: {parser_says}"),
    }
}

/// Percent-decodes a path once; `None` if it is not percent-encoded UTF-8.
pub(crate) fn decode(path: &str) -> Option<String> {
    let decoded = percent_decode_str(path).decode_utf8().ok().filter(|_| is_encoded(path))?;
    Some(decoded.into_owned())
}

fn is_encoded(path: &str) -> bool {
    let is_hex =
        |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|b| b.is_ascii_hexdigit());
    path.split('%').skip(1).all(is_hex)
}
