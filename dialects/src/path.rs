//! Names in request paths. Each dialect reports errors in its own format.

use std::collections::HashMap;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use crate::app::App;
use crate::content::is_encoded;

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
