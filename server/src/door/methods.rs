//! Whoever uses a method that a path does not allow is told which it allows.

use axum::body::{Body, to_bytes};
use axum::http::header::{ALLOW, CONTENT_LENGTH};
use axum::response::Response;

/// What every dialect says, in its own shape. The methods are known only to the router, which names them in a header
/// after the dialect has answered; they take the place of the braces here.
pub(crate) const NOT_ALLOWED: &str = "method not allowed; allowed: {methods}";
const METHODS: &str = "{methods}";
/// More than any answer of this kind has.
const BODY_BYTES_MAX: usize = 4096;

/// The same answer, with the methods named.
pub(super) async fn named(response: Response) -> Response {
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
