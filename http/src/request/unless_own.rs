//! A refusal that depends on what the handler finds out: a request beyond a rate limit, or on a reserved connection, is
//! served only if it renews or ends what its caller owns.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::Response;
use leasehold_base::sync::lock;

/// The response to the request unless it only affects what its caller owns.
#[derive(Clone, Default)]
pub struct UnlessOwn(Option<Arc<Mutex<Option<Response>>>>);

impl UnlessOwn {
    /// Attaches this refusal.
    pub fn new(refused: Response) -> Self {
        Self(Some(Arc::new(Mutex::new(Some(refused)))))
    }

    /// Returns the refusal attached to the request, if there is one.
    pub fn of(parts: &Parts) -> Self {
        parts.extensions.get().cloned().unwrap_or_default()
    }

    /// Returns the refusal if there is one and the request affects what others own.
    pub fn filter(self, is_own: bool) -> Option<Response> {
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
