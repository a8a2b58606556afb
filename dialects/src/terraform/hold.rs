//! The lock under which a state is written: the writer's lock, or one that is acquired for the write.

use leasehold_auth::Caller;
use leasehold_core::{Acquire, Extend, LeaseView, Proof, Release, Renew, Span};
use leasehold_engine::Take;
use leasehold_engine::owner::WITHOUT_LOCK;

use super::States;
use super::error::Refusal;
use super::lock::{holder, note_wrong_id, refused, secret};
use super::state::State;
use crate::counted::Counted;
use crate::{Dialect, owner};
use axum::http::StatusCode;

/// Minimum time that a lock must still last when a version is about to be published.
const PUBLISH_TIME: Span = Span::from_secs(30);

/// A lock. When dropped, it is released if it was acquired for this write.
pub(super) struct Hold {
    states: States,
    state: State,
    caller: Caller,
    /// The lease as first read. A later lease with the same lock id does not count as the same hold, because another
    /// client might have held the lock and written in between.
    lease: LeaseView,
    is_ours: bool,
}

impl Hold {
    /// Renews the lock that the writer names by its id, so that it lasts long enough to publish.
    pub(super) async fn of(
        states: &States,
        caller: &Caller,
        state: &State,
        id: &str,
    ) -> Result<Self, Refusal> {
        let (lock, owner) = (state.lock.clone(), owner::of(caller, id));
        let ttl = states.app.dialect.terraform.lock_ttl;
        let Some(lease) = renewed(states, caller, Proof::Owner { lock, owner }, ttl).await? else {
            note_wrong_id(states, caller, state, "write").await;
            return Err(lost(states, caller, state).await);
        };
        let (states, state, caller) = (states.clone(), state.clone(), caller.clone());
        Ok(Self { states, state, caller, lease, is_ours: false })
    }

    /// Acquires a lock for a writer that has none.
    pub(super) async fn take(
        states: &States,
        caller: &Caller,
        counted: Counted,
        state: &State,
    ) -> Result<Self, Refusal> {
        let id =
            format!("{WITHOUT_LOCK} {:016x}", u64::from_ne_bytes(leasehold_base::random::bytes()));
        let (lock, owner) = (state.lock.clone(), owner::of(caller, &id));
        let take = Take(Acquire {
            ttl: Some(PUBLISH_TIME),
            peer: counted.0,
            ..Acquire::new(lock, owner, Dialect::Terraform.number(), secret())
        });
        let taken = states.app.engine.ask(caller.permit(take)?).await?;
        let grant = taken.map_err(|rejection| refused(states, rejection))?.deliver();
        let (states, state, caller) = (states.clone(), state.clone(), caller.clone());
        Ok(Self { states, state, caller, lease: grant.lease, is_ours: true })
    }

    /// Makes sure that the lock is still held, and for long enough. A lock with a TTL is renewed.
    pub(super) async fn secure(&self) -> Result<LeaseView, Refusal> {
        let ttl = self.states.app.dialect.terraform.lock_ttl.filter(|_| !self.is_ours);
        let renewed = renewed(&self.states, &self.caller, self.proof(), ttl).await?;
        match renewed {
            Some(lease) => Ok(lease),
            None => Err(self.lost().await),
        }
    }

    /// Returns the error for a lock that the writer no longer holds.
    pub(super) async fn lost(&self) -> Refusal {
        lost(&self.states, &self.caller, &self.state).await
    }

    fn proof(&self) -> Proof {
        let LeaseView { id, owner, .. } = &self.lease;
        let lock = Some(self.state.lock.clone());
        Proof::Id { id: *id, owner: owner.clone(), token: None, lock }
    }
}

/// Renews a lock so that it lasts long enough to publish. Returns `None` if the lock is not held.
async fn renewed(
    states: &States,
    caller: &Caller,
    proof: Proof,
    ttl: Option<Span>,
) -> Result<Option<LeaseView>, Refusal> {
    let engine = &states.app.engine;
    let renew = Renew {
        proof,
        dialect: Dialect::Terraform.number(),
        extend: Extend::AtLeast(ttl.unwrap_or_default().max(PUBLISH_TIME)),
        request_id: None,
    };
    // The upload can take long, so the caller's rights are checked again.
    let caller = caller.still(engine.clock())?;
    Ok(engine.ask(caller.permit(renew)?).await?.ok().map(|lease| *lease))
}

/// Returns the error for a lock that the writer does not hold. It names the holder, if there is one.
async fn lost(states: &States, caller: &Caller, state: &State) -> Refusal {
    match holder(states, caller, state).await {
        Ok(Some(info)) => Refusal::Locked(StatusCode::CONFLICT, Box::new(info)),
        Ok(None) => Refusal::lost(),
        Err(refusal) => refusal,
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.is_ours {
            return;
        }
        let dialect = Dialect::Terraform.number();
        let release = Release { proof: self.proof(), dialect, request_id: None };
        let call = self.states.app.engine.ask(self.caller.own(release));
        // Without a runtime the server is stopping; the lock then expires.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(call);
        }
    }
}
