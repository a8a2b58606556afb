//! The header that tells clients to come back.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};

/// Whether a response has the header `Retry-After`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Retry(pub(crate) bool);

impl Retry {
    /// For formats that do not say whether a failure is retryable: only these statuses tell clients to come back soon.
    pub(crate) fn by_status(status: StatusCode) -> Self {
        Self(matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS))
    }

    /// Adds the header if the client can come back.
    pub(crate) fn add_to(self, headers: &mut HeaderMap) {
        if self.0 {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
    }
}
