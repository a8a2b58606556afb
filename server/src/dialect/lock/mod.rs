//! The sticky lock with grace: `/lock`. Everything is in the query; `job` says which lock.

mod duration;
mod error;
mod extract;
mod sticky;
mod wire;

use axum::Router;
use axum::routing::get;

use crate::app::App;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/lock", get(sticky::look).post(sticky::acquire).delete(sticky::release))
}
