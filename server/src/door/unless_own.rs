//! A refusal that waits for what the handler finds out: a request beyond a rate limit, or on a reserved connection, is
//! served only if it renews or ends what is its caller's own.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::Response;

use crate::sync::lock;

/// What the request is answered unless it is about what is its caller's own.
#[derive(Clone, Default)]
pub(crate) struct UnlessOwn(Option<Arc<Mutex<Option<Response>>>>);

impl UnlessOwn {
    pub(super) fn new(refused: Response) -> Self {
        Self(Some(Arc::new(Mutex::new(Some(refused)))))
    }

    /// As the door left it.
    pub(crate) fn of(parts: &Parts) -> Self {
        parts.extensions.get().cloned().unwrap_or_default()
    }

    /// The refusal, if there is one and the request is about what others have.
    pub(crate) fn filter(self, is_own: bool) -> Option<Response> {
        let refused = self.0.filter(|_| !is_own)?;
        lock(&refused).take()
    }
}

impl<S: Sync> FromRequestParts<S> for UnlessOwn {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(parts))
    }
}
