//! CORS: only pages of configured origins can use the API, without cookies.

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
    VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};

/// Returns the origin of the request if it is allowed.
#[inline]
pub fn allowed(headers: &HeaderMap, origins: &[String]) -> Option<HeaderValue> {
    if origins.is_empty() {
        return None;
    }
    let origin = headers.get(ORIGIN)?;
    origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()).then(|| origin.clone())
}

/// Returns whether the request is a CORS preflight from an allowed origin.
pub fn is_preflight<B>(request: &Request<B>, origins: &[String]) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
        && allowed(request.headers(), origins).is_some()
}

/// Returns the response to a preflight. The rights of the caller are checked with the actual request.
pub fn preflight() -> Response {
    let headers = [
        (ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST, PUT, PATCH, DELETE"),
        (
            ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, if-match, if-none-match, last-event-id, x-request-id",
        ),
        (ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Adds the headers that let the page read the response.
pub fn expose(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let exposed = "etag, link, location, retry-after, x-request-id";
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(exposed));
    headers.append(VARY, HeaderValue::from_static("origin"));
}
