//! A response, with the grant it delivers.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold_engine::Undelivered;

use super::protection;
use crate::answers::Sending;

/// The response to a request. A grant in it is final only once the response is delivered: if the answer is dropped
/// before that, the grant is released.
pub struct Answer {
    /// The response to send.
    pub response: Response,
    /// The guard of the grant, to be kept until the response is sent.
    pub undelivered: Option<Undelivered>,
    /// Counts the bytes of the response until the client takes it, if it is large.
    pub sending: Option<Sending>,
}

impl Answer {
    /// Creates an answer, with the guard of its grant if it has one.
    #[inline]
    pub fn new(response: Response, undelivered: Option<Undelivered>) -> Self {
        Self { response, undelivered, sending: None }
    }

    /// Refuses an HTTP/2 request whose headers take too much memory.
    pub fn head_too_large() -> Self {
        let why = "the headers of this request and of others take too much memory (heads-total-bytes-max; one client \
                   can use a quarter of it); send fewer headers, or repeat the request later";
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        let mut response = (status, why).into_response();
        protection::add(response.headers_mut());
        Self::new(response, None)
    }

    /// Returns the response and marks it as delivered, for callers without a connection to the client.
    pub fn deliver(self) -> Response {
        if let Some(undelivered) = self.undelivered {
            undelivered.delivered();
        }
        self.response
    }
}

impl From<Response> for Answer {
    fn from(response: Response) -> Self {
        Self::new(response, None)
    }
}

/// Passes the guard through the router, which handles only responses, as a response extension.
impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = self.response;
        if let Some(undelivered) = self.undelivered {
            response.extensions_mut().insert(undelivered.shared());
        }
        response
    }
}

impl Answer {
    /// Restores an answer from a response of the router.
    pub fn routed(mut response: Response) -> Self {
        let shared = response.extensions_mut().remove().map(Undelivered::from_shared);
        Self::new(response, shared)
    }
}
