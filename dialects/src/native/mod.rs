//! The native dialect: `/v1/locks`, `/v1/namespaces/{ns}/locks`, `/v1/sessions`, `/v1/fence`, `/v1/events` and
//! `/v1/admin`.

mod admin;
pub(super) mod contract;
mod direct;
mod error;
mod event;
mod extract;
mod fence;
mod group;
mod history;
mod list;
mod lock;
mod operator;
mod session;
mod stale;
mod waiting;
mod watch;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, delete, get, post};

use super::Listener;
use crate::RequestFailure;
use crate::app::App;
use crate::route::Route;
use crate::vital::Vital;
pub use direct::{Direct, Verb};
pub(crate) use error::Refusal;
pub use event::{note, wire as told};

/// The first segments of the paths that this dialect serves.
pub(super) const WORDS: &[&str] = &["v1"];
pub(super) const LISTENER: Option<Listener> = None;
/// The operations that the request pipeline treats differently.
pub(super) const ROUTES: &[Route] = &[
    Route::new("POST", "/v1/renew").vital(Vital::Always),
    Route::new("POST", "/v1/release").vital(Vital::Always),
    Route::new("POST", "/v1/locks/{lock}/renew").vital(Vital::Always),
    Route::new("POST", "/v1/locks/{lock}/release").vital(Vital::Always),
    Route::new("POST", "/v1/namespaces/{namespace}/renew").vital(Vital::Always),
    Route::new("POST", "/v1/namespaces/{namespace}/release").vital(Vital::Always),
    Route::new("POST", "/v1/namespaces/{namespace}/locks/{lock}/renew").vital(Vital::Always),
    Route::new("POST", "/v1/namespaces/{namespace}/locks/{lock}/release").vital(Vital::Always),
    Route::new("POST", "/v1/sessions/{session}/keepalive").vital(Vital::Always),
    Route::new("DELETE", "/v1/sessions/{session}").vital(Vital::Always),
    Route::new("GET", "/v1/events").on_followers(),
    Route::new("GET", "/v1/history").on_followers(),
    Route::new("GET", "/v1/locks/{lock}/history").on_followers(),
    Route::new("GET", "/v1/namespaces/{namespace}/events").on_followers(),
    Route::new("GET", "/v1/namespaces/{namespace}/history").on_followers(),
    Route::new("GET", "/v1/namespaces/{namespace}/locks/{lock}/history").on_followers(),
];

/// The settings of this dialect.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace for paths that do not name one, such as `/v1/locks`.
    pub namespace: Arc<str>,
}

impl Default for Options {
    fn default() -> Self {
        Self { namespace: "default".into() }
    }
}

pub(super) fn routes(_: &App) -> Router<App> {
    let locks = Router::new()
        .route("/", get(list::list))
        .route("/{lock}", get(lock::look))
        .route("/{lock}/acquire", post(lock::acquire))
        .route("/{lock}/renew", post(lock::renew))
        .route("/{lock}/release", post(lock::release))
        .route("/{lock}/revoke", post(lock::revoke))
        .route("/{lock}/history", get(history::of_lock))
        .route("/{lock}/cancel", post(group::cancel_one))
        .route("/{lock}/watch", post(watch::watch));
    let groups = Router::new()
        .route("/acquire", post(group::acquire))
        .route("/renew", post(group::renew))
        .route("/release", post(group::release))
        .route("/cancel", post(group::cancel_any));
    Router::new()
        .nest("/v1", groups.clone())
        .nest("/v1/namespaces/{namespace}", groups)
        .nest("/v1/locks", locks.clone())
        .nest("/v1/namespaces/{namespace}/locks", locks)
        .route("/v1/revoke", post(operator::revoke))
        .route("/v1/admin/maintenance", get(operator::maintenance).put(operator::set_maintenance))
        .route("/v1/admin/sessions", get(operator::sessions))
        .route("/v1/admin/sessions/{number}", delete(operator::end_session))
        .route("/v1/sessions", post(session::open))
        .route("/v1/sessions/{session}", get(session::look).delete(session::close))
        .route("/v1/sessions/{session}/keepalive", post(session::keep))
        .route("/v1/admin/backup", post(admin::backup))
        .route("/v1/admin/auth", get(admin::auth))
        .route("/v1/fence/check", post(fence::check))
        .route("/v1/events", get(event::watch))
        .route("/v1/namespaces/{namespace}/events", get(event::watch))
        .route("/v1/history", get(history::of_namespace))
        .route("/v1/namespaces/{namespace}/history", get(history::of_namespace))
        .route("/v1/namespaces//{*rest}", any(extract::empty_namespace))
}

/// Renders a failed request in this dialect's error format.
pub(super) fn render(_: &App, failure: RequestFailure) -> Response {
    error::Refusal::from(failure).into_response()
}
