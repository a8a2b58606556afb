//! The native dialect: `/v1/locks`, `/v1/namespaces/{ns}/locks`, `/v1/sessions`, `/v1/fence`, `/v1/events` and
//! `/v1/admin`.

mod admin;
pub(super) mod contract;
mod direct;
mod error;
mod event;
mod extract;
mod fence;
mod history;
mod list;
mod lock;
mod session;
mod wire;

use axum::Router;
use axum::routing::{any, get, post};

use crate::app::App;
pub(crate) use direct::{Direct, Verb};

pub(super) fn routes() -> Router<App> {
    let locks = Router::new()
        .route("/", get(list::list))
        .route("/{lock}", get(lock::look))
        .route("/{lock}/acquire", post(lock::acquire))
        .route("/{lock}/renew", post(lock::renew))
        .route("/{lock}/release", post(lock::release))
        .route("/{lock}/revoke", post(lock::revoke))
        .route("/{lock}/history", get(history::of_lock));
    Router::new()
        .nest("/v1/locks", locks.clone())
        .nest("/v1/namespaces/{namespace}/locks", locks)
        .route("/v1/sessions", post(session::open))
        .route("/v1/sessions/{session}", get(session::look).delete(session::close))
        .route("/v1/sessions/{session}/keepalive", post(session::keep))
        .route("/v1/admin/backup", post(admin::backup))
        .route("/v1/fence/check", post(fence::check))
        .route("/v1/events", get(event::watch))
        .route("/v1/namespaces/{namespace}/events", get(event::watch))
        .route("/v1/history", get(history::of_namespace))
        .route("/v1/namespaces/{namespace}/history", get(history::of_namespace))
        .route("/v1/namespaces//{*rest}", any(extract::empty_namespace))
}
