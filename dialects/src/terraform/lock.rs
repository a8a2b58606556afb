//! Endpoints that lock and unlock a state.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold_auth::{Caller, Right};
use leasehold_core::{Acquire, LockView, Proof, Rejection, Release, Revoke, Secret, Target};
use leasehold_engine::{ReadLock, Take};

use super::error::Refusal;
use super::info::LockInfo;
use super::state::State;
use super::{Answer, Asked, States};
use crate::counted::Counted;
use crate::http::body;
use crate::http::request::{self, UnlessOwn};
use crate::operator;
use crate::{Dialect, mismatch, owner};

/// The reason that is recorded with a lease that `terraform force-unlock` ended.
const FORCED: &str = "terraform force-unlock";

/// Acquires the lock. A repeated request with the same id succeeds, because the first response might have been lost.
pub(super) async fn lock(states: &States, asked: Asked) -> Answer {
    let app = &states.app;
    let Counted(peer) = Counted::of(app, &asked.parts);
    let Asked { state, caller, body, parts, .. } = asked;
    let bytes = Asked::bytes(body, &parts.headers, app).await?;
    let info = parse(&bytes)?;
    let owner = owner::of(&caller, &info.id);
    let take = Take(Acquire {
        ttl: app.dialect.terraform.lock_ttl,
        sticky: true,
        metadata: Some(bytes.as_ref().into()),
        peer,
        ..Acquire::new(state.lock.clone(), owner, Dialect::Terraform.number(), secret())
    });
    app.limits.check_acquire(&take.0)?;
    let taken = app.engine.ask(caller.permit(take)?).await?;
    let granted = taken.map_err(|rejection| refused(states, rejection))?;
    // Terraform only checks the status. The response has a body anyway, because its last piece shows that it was
    // delivered.
    let answer = Json(info).into_response();
    Ok(request::Answer::new(answer, granted.undelivered).into_response())
}

pub(super) fn secret() -> Secret {
    Secret(leasehold_base::random::bytes())
}

fn parse(bytes: &[u8]) -> Result<LockInfo, Refusal> {
    let info: LockInfo = body::parse(bytes)?;
    info.check().map_err(Refusal::invalid)?;
    Ok(info)
}

/// Returns the error for a lock that cannot be acquired.
pub(super) fn refused(states: &States, rejection: Rejection) -> Refusal {
    let app = &states.app;
    let info = match &rejection {
        Rejection::Held(holding) | Rejection::QueueFull { holding, .. } => {
            LockInfo::of_holding(app, holding)
        }
        Rejection::Grace { owner, .. } => LockInfo::reserved(app, owner),
        _ => return rejection.into(),
    };
    Refusal::Locked(StatusCode::LOCKED, Box::new(info))
}

/// Releases the lock. A request without a body comes from `terraform force-unlock`, which does not send the id that the
/// user typed.
pub(super) async fn unlock(states: &States, asked: Asked) -> Answer {
    let app = &states.app;
    let Asked { state, caller, body, parts, .. } = asked;
    let bytes = Asked::bytes(body, &parts.headers, app).await?;
    if bytes.is_empty() {
        return force(states, &caller, &state, UnlessOwn::of(&parts)).await;
    }
    let owner = owner::of(&caller, &parse(&bytes)?.id);
    app.limits.check_owner(&owner)?;
    let proof = Proof::Owner { lock: state.lock.clone(), owner };
    let dialect = Dialect::Terraform.number();
    let release = caller.own(Release { proof, dialect, request_id: None });
    match app.engine.ask(release).await? {
        Ok(_) => Ok(unlocked()),
        Err(Rejection::Limit(exceeded)) => Err(Rejection::Limit(exceeded).into()),
        // The client does not hold the lock. If no other client does, the state is unlocked, as requested.
        Err(_) => {
            note_wrong_id(states, &caller, &state, "release").await;
            match holder(states, &caller, &state).await {
                Ok(None) => Ok(unlocked()),
                Ok(Some(info)) => Err(Refusal::Locked(StatusCode::CONFLICT, Box::new(info))),
                // A caller without the right to read learns nothing about other holders.
                Err(_) => Err(Refusal::lost()),
            }
        }
    }
}

/// Records in the audit files that the request has another id than the lock of the state, if the state is locked.
pub(super) async fn note_wrong_id(
    states: &States,
    caller: &Caller,
    state: &State,
    operation: &'static str,
) {
    mismatch::of_lock(&states.app, caller, operation, (&state.lock, Dialect::Terraform)).await;
}

/// Revokes exactly the lease that was just read. Terraform cannot end a lease of another dialect.
async fn force(states: &States, caller: &Caller, state: &State, unless_own: UnlessOwn) -> Answer {
    let app = &states.app;
    let view = look(states, caller, state).await?;
    let Some(lease) = view.holders.first() else { return Ok(unlocked()) };
    let dialect = Dialect::Terraform.number();
    if lease.dialect != dialect {
        let info = LockInfo::of_lease(app, lease);
        return Err(Refusal::Locked(StatusCode::CONFLICT, Box::new(info)));
    }
    let proof = Proof::Number { number: lease.id.number, principal: None };
    let revoke = Revoke { target: Target::Lease(proof, dialect), reason: FORCED.into() };
    // A caller that can write can end its own lock. To end that of another, it needs the right to revoke.
    let is_own = caller.is(&lease.owner.principal);
    if let Some(refused) = unless_own.filter(is_own) {
        return Ok(refused);
    }
    let right = if is_own { Right::FilesWrite } else { Right::Revoke };
    match app.engine.ask(caller.permit_on(right, [&state.lock], revoke)?).await? {
        Ok(_) => {
            // Without authentication, all clients are the same principal.
            if !is_own || !caller.is_asked() {
                operator::note_revoked(app, caller, &state.lock, FORCED);
            }
            Ok(unlocked())
        }
        Err(Rejection::NoSuchLease | Rejection::Ended(_)) => Ok(unlocked()),
        Err(rejection) => Err(rejection.into()),
    }
}

fn unlocked() -> Response {
    Json(serde_json::json!({"unlocked": true})).into_response()
}

async fn look(states: &States, caller: &Caller, state: &State) -> Result<LockView, Refusal> {
    let read = caller.permit(ReadLock { key: state.lock.clone(), n_queue_max: 0 })?;
    Ok(*states.app.engine.ask(read).await??)
}

/// Returns the holder of the lock, if there is one.
pub(super) async fn holder(
    states: &States,
    caller: &Caller,
    state: &State,
) -> Result<Option<LockInfo>, Refusal> {
    let view = look(states, caller, state).await?;
    Ok(view.holders.first().map(|lease| LockInfo::of_lease(&states.app, lease)))
}
