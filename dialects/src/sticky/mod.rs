//! The sticky dialect: a lock with a grace period, at `/lock`. All parameters are in the query; `job` names the lock.
//! `/lock/page` shows all locks to people.

pub(super) mod contract;
mod duration;
mod error;
mod extract;
mod lock;
mod page;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use leasehold_auth::Caller;
use leasehold_core::Span;
use leasehold_engine::ReadLock;

use super::{Dialect, Listener};
use crate::RequestFailure;
use crate::app::App;
use crate::route::Route;
use crate::vital::Vital;

/// The first segment of the paths that this dialect serves.
pub(super) const WORDS: &[&str] = &["lock"];
pub(super) const LISTENER: Option<Listener> = None;
/// The operations that the request pipeline treats differently.
pub(super) const ROUTES: &[Route] = &[
    Route::new("POST", "/lock").vital(Vital::IfRenewal),
    Route::new("DELETE", "/lock").vital(Vital::Always),
];

/// The settings of this dialect.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of `/lock`.
    pub namespace: Arc<str>,
    /// How long after expiry a lock stays reserved for its last holder.
    pub grace: Span,
}

impl Default for Options {
    fn default() -> Self {
        Self { namespace: "default".into(), grace: Span::from_secs(5) }
    }
}

pub(super) fn routes(_: &App) -> Router<App> {
    Router::new()
        .route("/lock", get(lock::look).post(lock::acquire).delete(lock::release))
        .route("/lock/page", get(page::show))
}

/// Returns whether this `POST /lock` would renew a lock that the caller holds. Changes nothing.
pub async fn is_renewal(app: &App, caller: &Caller, uri: &Uri) -> bool {
    let Some((key, owner)) = extract::asked(app, caller, uri) else { return false };
    let read = caller.find_own(ReadLock { key, n_queue_max: 0 });
    let Ok(Ok(view)) = app.engine.ask(read).await else { return false };
    let number = Dialect::Sticky.number();
    view.holders.iter().any(|lease| lease.owner == owner && lease.dialect == number)
}

/// Renders a failed request in this dialect's error format.
pub(super) fn render(_: &App, failure: RequestFailure) -> Response {
    error::Refusal::from(failure).into_response()
}
