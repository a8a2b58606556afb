//! Checks whether a fencing token is stale. The check is advisory: only the protected resource can check without a
//! race.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use leasehold_api::{FenceCheck, FenceVerdict};
use leasehold_auth::Caller;
use leasehold_core::LockKey;
use leasehold_engine::ReadLock;

use super::error::Refusal;
use super::extract::Body;
use crate::app::App;

pub(super) async fn check(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<FenceCheck>,
) -> Result<Response, Refusal> {
    let namespace =
        request.namespace.map_or_else(|| app.dialect.native.namespace.clone(), Into::into);
    let key = LockKey { namespace, name: request.lock_name.into() };
    app.limits.check_key(&key)?;
    let read = caller.permit(ReadLock { key, n_queue_max: 0 })?;
    let view = app.engine.ask(read).await??;
    // No later grant can conflict with an active lease, so its token is not stale.
    let accepted = view.holders.iter().any(|holder| holder.token.get() == request.fencing_token);
    Ok(Json(FenceVerdict { accepted, last_token: view.last_token.get() }).into_response())
}
