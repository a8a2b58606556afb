//! An answer, and what it grants.

use axum::response::{IntoResponse, Response};

use crate::engine::Undelivered;

/// What a request is answered. If it grants something, that is only its client's once the answer is delivered:
/// dropping it before gives the grant back.
pub struct Answer {
    /// To be sent.
    pub response: Response,
    /// To be kept until it was.
    pub undelivered: Option<Undelivered>,
}

impl Answer {
    /// One that grants this, or nothing.
    pub(crate) fn new(response: Response, undelivered: Option<Undelivered>) -> Self {
        Self { response, undelivered }
    }

    /// For whoever has no socket between itself and the client.
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

/// Through the router, which knows nothing but responses.
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
    /// As it comes out of the router.
    pub(super) fn routed(mut response: Response) -> Self {
        let shared = response.extensions_mut().remove().map(Undelivered::from_shared);
        Self::new(response, shared)
    }
}
