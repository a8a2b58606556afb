//! `X-Request-ID`: echoed, and in the log.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Answers with the id the request came with.
pub(crate) async fn echo_request_id(request: Request, next: Next) -> Response {
    let Some(id) = request.headers().get(X_REQUEST_ID).cloned() else {
        return next.run(request).await;
    };
    let span = tracing::info_span!("request", id = %printable(&id));
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let mut response = next.run(request).instrument(span.clone()).await;
    span.in_scope(
        || tracing::info!(%method, path, status = response.status().as_u16(), "answered"),
    );
    response.headers_mut().insert(X_REQUEST_ID, id);
    response
}

fn printable(id: &HeaderValue) -> String {
    String::from_utf8_lossy(id.as_bytes()).chars().filter(|c| !c.is_control()).take(128).collect()
}
