//! Answers in JSON.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde::Serialize;

/// Room for most answers, so that few of them have to move while they are written.
const USUAL_BYTES: usize = 256;

/// An answer with this status and content.
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
