//! JSON responses.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde::Serialize;

/// Initial buffer size: large enough for most responses, so that few buffers have to grow.
const USUAL_BYTES: usize = 256;

/// Builds a JSON response.
pub fn json(status: StatusCode, content: &impl Serialize) -> Response {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    if let Err(error) = serde_json::to_writer(&mut bytes, content) {
        unreachable!("what we answer is always JSON: {error}");
    }
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
