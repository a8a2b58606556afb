//! Endpoints for one lock: read it, and release it by force. Also the health check.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use leasehold_auth::Caller;
use leasehold_core::{LeaseView, LockKey, Revoke, Target};
use leasehold_engine::ReadLock;

use super::error::Refusal;
use super::extract::{Body, Claimed, Lock, Params};
use super::lease::{Answer, origin};
use super::wire::{self, ForceReleaseRequest, Health, LockState, LookParams, Origin};
use crate::app::App;
use crate::operator;
use crate::{Dialect, grip};

pub(super) async fn look(
    State(app): State<App>,
    Lock(lock_key): Lock,
    caller: Caller,
    Params(params): Params<LookParams>,
) -> Answer {
    let key = wire::key(&app, &params.tenant_id, &lock_key)?;
    let read = caller.permit(ReadLock { key: key.clone(), n_queue_max: 0 })?;
    let view = app.engine.ask(read).await??;
    let lease = view.holders.first();
    Ok(Json(state(&app, &caller, key, lease, lease.is_some()).await).into_response())
}

pub(super) async fn force_release(
    State(app): State<App>,
    Lock(lock_key): Lock,
    claimed: Claimed,
    caller: Caller,
    Body(request): Body<ForceReleaseRequest>,
) -> Answer {
    let key = wire::key(&app, &request.tenant_id, &lock_key)?;
    let reason = wire::reason(&app, &request)?;
    claimed.must_be_admin()?;
    grip::check_revocable(&app, &key).map_err(Refusal::invalid)?;
    let target = Target::Lock(key.clone());
    let revoke = Revoke { target, reason: reason.as_str().into() };
    let leases = app.engine.ask(caller.permit(revoke)?).await??;
    grip::loosen(&app, &key, &caller, &leases).await;
    tracing::warn!(lock = ?key, ?reason, n = leases.len(), "released by force");
    app.note_taken(&caller, "revoke", operator::is_from_others(&caller, &leases), |act| {
        let act = act.on(&key).detail("n", leases.len());
        act.claimed("actor", Some(&request.actor)).claimed("reason", request.reason.as_deref())
    });
    Ok(Json(state(&app, &caller, key, leases.first(), false).await).into_response())
}

/// Returns the state of a lock, with its active lease or the one that was just released by force.
async fn state(
    app: &App,
    caller: &Caller,
    key: LockKey,
    lease: Option<&LeaseView>,
    is_active: bool,
) -> LockState {
    let active_lease = match lease {
        Some(lease) => Some(wire::lease(app, caller, of(app, caller, &key, lease).await, lease)),
        None => None,
    };
    LockState {
        tenant_id: wire::tenant_id(app, &key),
        lock_key: key.name.to_string(),
        has_active_lease: is_active,
        active_lease,
        server_time: wire::server_time(app),
    }
}

/// Returns the origin of a lease. If it cannot be read, the idempotency key is omitted: the lock has already been read
/// or released, so the request must not fail now.
async fn of(app: &App, caller: &Caller, key: &LockKey, lease: &LeaseView) -> Origin {
    let unknown = Origin { key: key.clone(), idempotency_key: None };
    if lease.dialect != Dialect::Leases.number() {
        return unknown;
    }
    origin(app, caller, lease.id.number).await.ok().flatten().unwrap_or(unknown)
}

pub(super) async fn health(State(app): State<App>) -> Response {
    Json(Health { status: "ok", server_time: wire::server_time(&app) }).into_response()
}
