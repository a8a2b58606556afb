//! Changing a claim.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use leasehold_core::{
    Amend, Confirm, Extend, LeaseNumber, LeaseView, LockKey, Proof, Rejection, Release, Renew,
    Revoke, Target,
};

use super::claim::{Answer, read, shown};
use super::error::{self, Refusal};
use super::extract::{Base, Body, Id};
use super::parameter::Update;
use super::wire::Claim;
use crate::app::App;
use crate::dialect::Dialect;
use crate::engine::{Ask, ReadLock};

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
        Update::Activate => activate(&app, &base, number, Confirm { proof, dialect }).await,
        Update::Release => {
            let release = Release { proof, dialect, request_id: None };
            ended(&app, number, app.engine.ask(release).await?.map(drop)).await
        }
        Update::Revoke(word) => {
            let target = Target::Lease(proof, dialect);
            let revoke = Revoke { target, reason: word.into() };
            ended(&app, number, app.engine.ask(revoke).await?.map(drop)).await
        }
        Update::Ttl(ttl) => {
            let extend = Extend::Exactly(ttl);
            let renew = Renew { proof, dialect, extend, request_id: None };
            set(&app, &base, number, renew).await
        }
        Update::Timeout(ttl) => set(&app, &base, number, Amend { proof, dialect, ttl }).await,
    }
}

/// The server promotes by itself: a claim that is active already is what was asked for, and there is nothing
/// to do for one that is not.
async fn activate(app: &App, base: &str, number: LeaseNumber, confirm: Confirm) -> Answer {
    match app.engine.ask(confirm).await? {
        Ok(record) => Ok(shown(app, base, &Claim::from(*record))),
        Err(Rejection::Held(holding)) => {
            let claim = holding.lease.filter(|(dialect, _)| *dialect == Dialect::Claims.number());
            let active = claim.map(|(_, number)| number.0);
            Err(Refusal::conflict("The resource is held by another", active))
        }
        Err(Rejection::Grace { .. }) => {
            Err(Refusal::conflict("The resource is held by another", None))
        }
        Err(rejection) => Err(refusal(app, number, rejection).await),
    }
}

/// A claim is over, or why not.
async fn ended(app: &App, number: LeaseNumber, outcome: Result<(), Rejection>) -> Answer {
    match outcome {
        Ok(()) => Ok(StatusCode::NO_CONTENT.into_response()),
        Err(rejection) => Err(refusal(app, number, rejection).await),
    }
}

/// Changes a time of a claim.
async fn set(
    app: &App,
    base: &str,
    number: LeaseNumber,
    change: impl Ask<Answer = Result<Box<LeaseView>, Rejection>>,
) -> Answer {
    // What the command leaves behind does not say which resource it is about, and may be over before it
    // could be read again.
    let Claim { lock, .. } = read(app, number).await?;
    // From before the command, so that a ttl is answered as it was asked for.
    let now = app.engine.now();
    match app.engine.ask(change).await? {
        Ok(view) => Ok(Json(Claim::of(lock, *view).show(app, base, now)).into_response()),
        Err(rejection) => Err(refusal(app, number, rejection).await),
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
    let view = app.engine.ask(ReadLock { key: key.clone(), n_queue_max: 0 }).await??;
    let holder = view.holders.first();
    let claim = holder.filter(|holder| holder.dialect == Dialect::Claims.number());
    Ok(claim.map(|claim| claim.id.number.0))
}
