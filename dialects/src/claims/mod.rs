//! The claims dialect: `/v1/claims/` and `/v1/claims/{id}/`, each also without the trailing slash.
//!
//! A claim is a lease with a separate owner, named by the lease's number. It waits in its resource's queue without a
//! connection. The server promotes and expires it automatically.

mod change;
mod claim;
pub(super) mod contract;
mod date;
mod error;
mod extract;
mod filter;
mod list;
mod parameter;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use leasehold_core::Span;

use super::Listener;
use crate::RequestFailure;
use crate::app::App;
use crate::route::Route;
use crate::vital::Vital;

/// The first segments of the paths that this dialect serves.
pub(super) const WORDS: &[&str] = &["v1"];
pub(super) const LISTENER: Option<Listener> = None;
/// The operations that the request pipeline treats differently.
pub(super) const ROUTES: &[Route] = &[
    Route::new("PATCH", "/v1/claims/{id}").vital(Vital::IfOwn),
    Route::new("PATCH", "/v1/claims/{id}/").vital(Vital::IfOwn),
    Route::new("PUT", "/v1/claims/{id}").vital(Vital::IfOwn),
    Route::new("PUT", "/v1/claims/{id}/").vital(Vital::IfOwn),
];

/// The settings of this dialect.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of `/v1/claims`.
    pub namespace: Arc<str>,
    /// Maximum time a claim waits before it expires.
    pub wait_max: Span,
}

impl Default for Options {
    fn default() -> Self {
        Self { namespace: "default".into(), wait_max: Span::from_secs(24 * 3600) }
    }
}

pub(super) fn routes(_: &App) -> Router<App> {
    let claims = get(list::list).post(claim::create);
    let claim = get(claim::look).patch(change::change).put(change::change);
    Router::new()
        .route("/v1/claims", claims.clone())
        .route("/v1/claims/", claims)
        .route("/v1/claims/{id}", claim.clone())
        .route("/v1/claims/{id}/", claim)
}

/// Renders a failed request in this dialect's error format.
pub(super) fn render(_: &App, failure: RequestFailure) -> Response {
    error::Refusal::from(failure).into_response()
}
