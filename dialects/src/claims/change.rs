//! The endpoint that changes a claim.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use leasehold_auth::{Caller, Permitted, Right};
use leasehold_core::{
    Amend, Confirm, Extend, LeaseNumber, LeaseView, LockKey, Proof, Rejection, Release, Renew,
    Revoke, Target,
};
use leasehold_engine::{Ask, ReadLock};

use super::claim::{Answer, read, shown};
use super::error::{self, Refusal};
use super::extract::{Base, Body, Id};
use super::parameter::Update;
use super::wire::Claim;
use crate::app::App;
use crate::http::request::UnlessOwn;
use crate::operator;
use crate::{Dialect, mismatch};

pub(super) async fn change(
    State(app): State<App>,
    Base(base): Base,
    Id(number): Id,
    caller: Caller,
    unless_own: UnlessOwn,
    Body(parameters): Body,
) -> Answer {
    let dialect = Dialect::Claims.number();
    let update = parameters.update(&app.limits)?;
    // Without authentication, any client that knows a claim's number can change it.
    let principal = caller.name_if_asked();
    let proof = Proof::Number { number, principal };
    let claim = match caller.is_asked() {
        true => Some(find(&app, &caller, number, update.operation()).await?),
        false => None,
    };
    let is_own = claim.as_ref().is_none_or(|claim| caller.is(claim.principal()));
    if let Some(refused) = unless_own.filter(is_own && !matches!(update, Update::Activate)) {
        return Ok(refused);
    }
    let change = ClaimChange { app, caller, base, number, lock: claim.map(|claim| claim.lock) };
    match update {
        Update::Activate => change.activate(Confirm { proof, dialect }).await,
        Update::Release => {
            let release = Release { proof, dialect, request_id: None };
            let release = change.caller.own(release);
            change.end(release).await
        }
        Update::Revoke(word) => change.revoke(proof, word, is_own).await,
        Update::Ttl(ttl) => {
            let extend = Extend::Exactly(ttl);
            change.set(Renew { proof, dialect, extend, request_id: None }).await
        }
        Update::Timeout(ttl) => change.set(Amend { proof, dialect, ttl }).await,
    }
}

/// Returns the claim, if the caller can see it. An attempt to change another principal's claim without that right is
/// audited.
async fn find(
    app: &App,
    caller: &Caller,
    number: LeaseNumber,
    operation: &'static str,
) -> Result<Claim, Refusal> {
    let found = read(app, caller, number).await;
    if found.is_err() {
        mismatch::of_lease(app, caller, operation, (number, Dialect::Claims)).await;
    }
    found
}

struct ClaimChange {
    app: App,
    caller: Caller,
    base: String,
    number: LeaseNumber,
    /// The claim's lock, if authentication is on.
    lock: Option<LockKey>,
}

impl ClaimChange {
    /// Confirms that the claim is active. It never changes the claim, because the server promotes claims automatically.
    async fn activate(self, confirm: Confirm) -> Answer {
        let confirm = self.caller.permit_on(Right::Acquire, &self.lock, confirm)?;
        match self.app.engine.ask(confirm).await? {
            Ok(record) => Ok(shown(&self.app, &self.base, &Claim::from(*record))),
            Err(Rejection::Held(holding)) => {
                let claim =
                    holding.lease.filter(|(dialect, _)| *dialect == Dialect::Claims.number());
                let active = claim.map(|(_, number)| number.0);
                Err(Refusal::conflict("The resource is held by another", active))
            }
            Err(Rejection::Grace { .. }) => {
                Err(Refusal::conflict("The resource is held by another", None))
            }
            Err(rejection) => Err(self.refusal(rejection).await),
        }
    }

    /// Revokes the claim with a reason. Callers can revoke their own claims, and those with the right to revoke can
    /// revoke any claim.
    async fn revoke(self, proof: Proof, word: &'static str, is_own: bool) -> Answer {
        let may_revoke = |lock: &&LockKey| self.caller.check(Right::Revoke, lock).is_ok();
        let of_other = self.lock.as_ref().filter(|_| !is_own).filter(may_revoke);
        let proof = match of_other {
            Some(_) => Proof::Number { number: self.number, principal: None },
            None => proof,
        };
        let target = Target::Lease(proof, Dialect::Claims.number());
        let revoke = Revoke { target, reason: word.into() };
        let revoke = self.caller.permit_on(Right::Revoke, [], revoke)?;
        match self.app.engine.ask(revoke).await? {
            Ok(_) => {
                if let Some(lock) = of_other {
                    operator::note_revoked(&self.app, &self.caller, lock, word);
                }
                Ok(StatusCode::NO_CONTENT.into_response())
            }
            Err(rejection) => Err(self.refusal(rejection).await),
        }
    }

    async fn end<T>(self, ask: Permitted<impl Ask<Answer = Result<T, Rejection>>>) -> Answer {
        match self.app.engine.ask(ask).await? {
            Ok(_) => Ok(StatusCode::NO_CONTENT.into_response()),
            Err(rejection) => Err(self.refusal(rejection).await),
        }
    }

    /// Changes the TTL or the timeout of the claim.
    async fn set(self, change: impl Ask<Answer = Result<Box<LeaseView>, Rejection>>) -> Answer {
        // The result of the command does not contain the resource, and a short claim might be gone before a later read.
        let Claim { lock, .. } = read(&self.app, &self.caller, self.number).await?;
        let change = self.caller.permit_on(Right::Acquire, [&lock], change)?;
        // Taken before the command, so that the response shows the TTL that the client requested.
        let now = self.app.engine.now();
        match self.app.engine.ask(change).await? {
            Ok(view) => {
                let claim = Claim::of(lock, *view);
                Ok(Json(claim.show(&self.app, &self.base, now)).into_response())
            }
            Err(rejection) => Err(self.refusal(rejection).await),
        }
    }

    /// Converts a rejection. If the claim is in the wrong state, the response also names the claim that holds the
    /// resource.
    async fn refusal(&self, rejection: Rejection) -> Refusal {
        let message = match rejection {
            Rejection::Ended(how) => error::ended(how),
            Rejection::StillWaiting => error::STILL_WAITING,
            // At this point, the caller is known to be allowed to see the claim.
            Rejection::NotOwner => return Refusal::not_own(),
            other => return other.into(),
        };
        let active = match read(&self.app, &self.caller, self.number).await {
            Ok(claim) => self.active_claim(&claim.lock).await.ok().flatten(),
            Err(_) => None,
        };
        Refusal::conflict(message, active)
    }

    /// Returns the claim that holds a lock. `None` if the holder uses another protocol, or if the lock is only reserved
    /// by a grace period.
    async fn active_claim(&self, key: &LockKey) -> Result<Option<u64>, Refusal> {
        let read = self.caller.permit(ReadLock { key: key.clone(), n_queue_max: 0 })?;
        let view = self.app.engine.ask(read).await??;
        let holder = view.holders.first();
        let claim = holder.filter(|holder| holder.dialect == Dialect::Claims.number());
        Ok(claim.map(|claim| claim.id.number.0))
    }
}
