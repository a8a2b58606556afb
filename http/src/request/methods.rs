//! Adds the allowed methods to responses for methods that a path does not support.

use axum::body::{Body, to_bytes};
use axum::http::header::{ALLOW, CONTENT_LENGTH};
use axum::response::Response;

/// The message of a 405, which every dialect wraps in its own format. Only the router knows the methods, and adds them
/// to a header after the dialect has answered; they then replace the braces.
pub const NOT_ALLOWED: &str = "method not allowed; allowed: {methods}";
const METHODS: &str = "{methods}";
/// Maximum size of such a response.
const BODY_BYTES_MAX: usize = 4096;

/// Returns the response with the allowed methods in its message.
pub async fn named(response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    let allowed = head.headers.get(ALLOW).and_then(|allowed| allowed.to_str().ok());
    let allowed = allowed.unwrap_or_default().split(',').map(str::trim).collect::<Vec<_>>();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return Response::from_parts(head, Body::empty());
    };
    let body = String::from_utf8_lossy(&body).replace(METHODS, &allowed.join(", "));
    head.headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, Body::from(body))
}
