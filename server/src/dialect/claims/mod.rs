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

use axum::Router;
use axum::routing::get;

use crate::app::App;

pub(super) fn routes() -> Router<App> {
    let claims = get(list::list).post(claim::create);
    let claim = get(claim::look).patch(change::change).put(change::change);
    Router::new()
        .route("/v1/claims", claims.clone())
        .route("/v1/claims/", claims)
        .route("/v1/claims/{id}", claim.clone())
        .route("/v1/claims/{id}/", claim)
}
