//! Changing a claim.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use leasehold_core::{
    Amend, Command, Extend, LeaseNumber, LockKey, Outcome, Phase, Proof, Rejection, Release, Renew,
    Revoke, Target,
};

use super::claim::{Answer, read, shown};
use super::error::{self, Refusal};
use super::extract::{Base, Body, Id};
use super::parameter::Update;
use super::wire::Claim;
use crate::app::App;
use crate::dialect::Dialect;
use crate::engine::{Read, Reply};

pub(super) async fn change(
    State(app): State<App>,
    Base(base): Base,
    Id(number): Id,
    Body(parameters): Body,
) -> Answer {
    let dialect = Dialect::Claims.number();
    // Without authentication whoever knows a claim's number may change it.
    let proof = Proof::Number { number, principal: None };
    match parameters.update(&app.limits)? {
        Update::Activate => activate(&app, &base, number).await,
        Update::Release => {
            end(&app, number, Command::Release(Release { proof, dialect, request_id: None })).await
        }
        Update::Revoke(word) => {
            let target = Target::Lease(proof, dialect);
            end(&app, number, Command::Revoke(Revoke { target, reason: word.into() })).await
        }
        Update::Ttl(ttl) => {
            let extend = Extend::Exactly(ttl);
            let renew = Renew { proof, dialect, extend, request_id: None };
            set(&app, &base, number, Command::Renew(renew)).await
        }
        Update::Timeout(ttl) => {
            set(&app, &base, number, Command::Amend(Amend { proof, dialect, ttl })).await
        }
    }
}

/// The server promotes by itself: a claim that is active already is what was asked for, and there is nothing
/// to do for one that is not.
async fn activate(app: &App, base: &str, number: LeaseNumber) -> Answer {
    let claim = read(app, number).await?;
    match claim.phase {
        Phase::Active => Ok(shown(app, base, &claim)),
        Phase::Ended(how) => {
            let active = active_claim(app, &claim.lock).await?;
            Err(Refusal::conflict(error::ended(how), active))
        }
        Phase::Waiting | Phase::Parked => {
            let active = active_claim(app, &claim.lock).await?;
            if active == Some(number.0) {
                // It was promoted between the two looks, and never waits again.
                return Ok(shown(app, base, &read(app, number).await?));
            }
            Err(Refusal::conflict("The resource is held by another", active))
        }
    }
}

/// Ends a claim.
async fn end(app: &App, number: LeaseNumber, command: Command) -> Answer {
    match app.engine.apply(command).await? {
        Reply::Applied(Ok(Outcome::Released(_) | Outcome::Revoked(_))) => {
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        Reply::Applied(Err(rejection)) => Err(refusal(app, number, rejection).await),
        other => Err(Refusal::unexpected(&other)),
    }
}

/// Changes a time of a claim.
async fn set(app: &App, base: &str, number: LeaseNumber, command: Command) -> Answer {
    // What the command leaves behind does not say which resource it is about, and may be over before it
    // could be read again.
    let Claim { lock, .. } = read(app, number).await?;
    // From before the command, so that a ttl is answered as it was asked for.
    let now = app.engine.now();
    match app.engine.apply(command).await? {
        Reply::Applied(Ok(Outcome::Renewed(view) | Outcome::Amended(view))) => {
            Ok(Json(Claim::of(lock, *view).show(app, base, now)).into_response())
        }
        Reply::Applied(Err(rejection)) => Err(refusal(app, number, rejection).await),
        other => Err(Refusal::unexpected(&other)),
    }
}

/// A refusal because of the state a claim is in also says which claim has the resource.
async fn refusal(app: &App, number: LeaseNumber, rejection: Rejection) -> Refusal {
    let message = match rejection {
        Rejection::Ended(how) => error::ended(how),
        Rejection::StillWaiting => error::STILL_WAITING,
        other => return other.into(),
    };
    let active = match read(app, number).await {
        Ok(claim) => active_claim(app, &claim.lock).await.ok().flatten(),
        Err(_) => None,
    };
    Refusal::conflict(message, active)
}

/// The claim that has a lock. Somebody else may have it through another protocol, or in grace.
async fn active_claim(app: &App, key: &LockKey) -> Result<Option<u64>, Refusal> {
    match app.engine.read(Read::Lock { key: key.clone(), n_queue_max: 0 }).await? {
        Reply::Lock(view) => {
            let holder = view.holders.first();
            let claim = holder.filter(|holder| holder.dialect == Dialect::Claims.number());
            Ok(claim.map(|claim| claim.id.number.0))
        }
        Reply::Applied(Err(rejection)) => Err(rejection.into()),
        other => Err(Refusal::unexpected(&other)),
    }
}
