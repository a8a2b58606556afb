//! The sticky lock with grace: `/lock`. Everything is in the query; `job` says which lock.
//! `/lock/page` shows all of them to people.

pub(super) mod contract;
mod duration;
mod error;
mod extract;
mod lock;
mod page;
mod wire;

use axum::Router;
use axum::routing::get;

use crate::app::App;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/lock", get(lock::look).post(lock::acquire).delete(lock::release))
        .route("/lock/page", get(page::show))
}
