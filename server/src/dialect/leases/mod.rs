//! LS-SPEC-001: `/leases`, `/locks` and `/health`. The namespace is the tenant.

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
use crate::app::App;
use crate::auth::Denied;

/// The first words of its paths.
pub(super) const WORDS: &[&str] = &["leases", "locks", "health"];
pub(super) const LISTENER: Option<Listener> = None;

/// What it can be told.
#[derive(Clone, Debug)]
pub struct Options {
    /// What comes before a tenant's name in the namespace of its locks.
    pub namespace_prefix: Arc<str>,
    /// The shortest ttl.
    pub ttl_seconds_min: u64,
    /// The longest ttl.
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
    // A nest answers for everything below it but its own name with a slash.
    let edge = Router::new()
        .route("/leases/", any(error::nothing_here))
        .route("/locks/", any(error::nothing_here))
        .route("/health", get(lock::health));
    Router::new()
        .nest("/leases", ours(leases.fallback(error::nothing_here), app))
        .nest("/locks", ours(locks.fallback(error::nothing_here), app))
        .merge(ours(edge, app))
}

/// Whatever is wrong with these paths is said in this dialect's shape, which tells the time.
fn ours(router: Router<App>, app: &App) -> Router<App> {
    router
        .method_not_allowed_fallback(error::wrong_method)
        .layer(middleware::map_response_with_state(app.clone(), error::write))
}

/// Somebody may not do what they ask.
pub(super) fn refuse(app: &App, denied: Denied) -> Response {
    error::written(app, error::Refusal::from(denied).into_response())
}
