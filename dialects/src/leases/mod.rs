//! The leases dialect (LS-SPEC-001): `/leases`, `/locks` and `/health`. Each tenant has a separate namespace.

pub(super) mod contract;
mod error;
mod extract;
mod lease;
mod lock;
mod wire;

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Router, middleware};

use super::Listener;
use crate::RequestFailure;
use crate::app::App;
use crate::route::Route;
use crate::vital::Vital;

/// The first segments of the paths that this dialect serves.
pub(super) const WORDS: &[&str] = &["leases", "locks", "health"];
pub(super) const LISTENER: Option<Listener> = None;
/// The operations that the request pipeline treats differently.
pub(super) const ROUTES: &[Route] = &[
    Route::new("POST", "/leases/{lease}/renew").vital(Vital::Always),
    Route::new("POST", "/leases/{lease}/release").vital(Vital::Always),
];

/// The settings of this dialect.
#[derive(Clone, Debug)]
pub struct Options {
    /// Prefix of the tenant's name in the namespace of its locks.
    pub namespace_prefix: Arc<str>,
    /// Minimum TTL, in seconds.
    pub ttl_seconds_min: u64,
    /// Maximum TTL, in seconds.
    pub ttl_seconds_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { namespace_prefix: "".into(), ttl_seconds_min: 10, ttl_seconds_max: 300 }
    }
}

pub(super) fn routes(app: &App) -> Router<App> {
    let leases = Router::new()
        .route("/acquire", post(lease::acquire))
        .route("/{lease}/renew", post(lease::renew))
        .route("/{lease}/release", post(lease::release));
    let locks = Router::new()
        .route("/{lock}", get(lock::look))
        .route("/{lock}/force-release", post(lock::force_release));
    // A nested router does not match its own prefix with a trailing slash.
    let edge = Router::new()
        .route("/leases/", any(error::nothing_here))
        .route("/locks/", any(error::nothing_here))
        .route("/health", get(lock::health));
    Router::new()
        .nest("/leases", ours(leases.fallback(error::nothing_here), app))
        .nest("/locks", ours(locks.fallback(error::nothing_here), app))
        .merge(ours(edge, app))
}

/// Renders all errors of these routes in this dialect's format, which includes the server time.
fn ours(router: Router<App>, app: &App) -> Router<App> {
    router
        .method_not_allowed_fallback(error::wrong_method)
        .layer(middleware::map_response_with_state(app.clone(), error::write))
}

/// Renders a failed request in this dialect's error format.
pub(super) fn render(app: &App, failure: RequestFailure) -> Response {
    error::written(app, error::Refusal::from(failure).into_response())
}
