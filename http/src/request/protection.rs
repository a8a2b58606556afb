//! Headers for browsers and caches that every response has.

use axum::http::{HeaderMap, HeaderValue, header};

const HEADERS: [(header::HeaderName, &str); 3] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Adds the headers that a response does not set itself.
pub fn add(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    let deny = HeaderValue::from_static("DENY");
    headers.entry(header::X_FRAME_OPTIONS).or_insert(deny);
}

/// Adds the headers to responses of the hot calls, which set none of them.
///
/// `X-Frame-Options` is left out: it is only for old browsers, which do not make these calls.
#[inline]
pub fn add_hot(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
