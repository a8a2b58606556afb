//! The claims dialect: `/v1/claims/` and `/v1/claims/{id}/`, each also without its last slash.
//!
//! A claim is a lease of its own owner, named by the lease's number. It waits in its resource's queue without
//! a connection, and the server promotes and expires it without being asked.

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
use leasehold_auth::Denied;
use leasehold_core::Span;

use super::Listener;
use crate::app::App;

/// The first words of its paths.
pub(super) const WORDS: &[&str] = &["v1"];
pub(super) const LISTENER: Option<Listener> = None;

/// What it can be told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of `/v1/claims`.
    pub namespace: Arc<str>,
    /// How long a claim may wait before it expires.
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

/// Somebody may not do what they ask.
pub(super) fn refuse(_: &App, denied: Denied) -> Response {
    error::Refusal::from(denied).into_response()
}
