//! The lock under which a state is written: the writer's own, or one taken for the write.

use leasehold_core::{Acquire, Extend, LeaseView, Owner, Proof, Release, Renew, Span};

use super::States;
use super::error::Refusal;
use super::lock::{holder, refused, secret};
use super::state::State;
use crate::auth::Caller;
use crate::dialect::counted::Counted;
use crate::dialect::{Dialect, owner};
use crate::engine::Take;
use axum::http::StatusCode;

/// A lock must last at least this long from right before the content is published.
const PUBLISH_TIME: Span = Span::from_secs(30);

/// A lock. Dropped, it is given back if it was taken for this write.
pub(super) struct Hold {
    states: States,
    state: State,
    caller: Caller,
    owner: Owner,
    is_ours: bool,
}

impl Hold {
    /// The lock whose id the writer has.
    pub(super) fn of(states: &States, caller: &Caller, state: &State, id: &str) -> Self {
        let owner = owner::of(caller, id);
        let (states, state, caller) = (states.clone(), state.clone(), caller.clone());
        Self { states, state, caller, owner, is_ours: false }
    }

    /// One for a writer that has none.
    pub(super) async fn take(
        states: &States,
        caller: &Caller,
        counted: Counted,
        state: &State,
    ) -> Result<Self, Refusal> {
        let id =
            format!("write without a lock {:016x}", u64::from_ne_bytes(crate::random::bytes()));
        let mut hold = Self::of(states, caller, state, &id);
        let (lock, owner) = (state.lock.clone(), hold.owner.clone());
        let take = Take(Acquire {
            ttl: Some(PUBLISH_TIME),
            peer: counted.0,
            ..Acquire::new(lock, owner, Dialect::Terraform.number(), secret())
        });
        let taken = states.app.engine.ask(caller.permit(take)?).await?;
        taken.map_err(|rejection| refused(states, rejection))?.deliver();
        hold.is_ours = true;
        Ok(hold)
    }

    /// Makes sure that it is still held, and for long enough. A lock that expires is renewed by this.
    pub(super) async fn secure(&self) -> Result<LeaseView, Refusal> {
        let engine = &self.states.app.engine;
        let ttl = self.states.app.dialect.terraform.lock_ttl.filter(|_| !self.is_ours);
        let renew = Renew {
            proof: self.proof(),
            dialect: Dialect::Terraform.number(),
            extend: Extend::AtLeast(ttl.unwrap_or_default().max(PUBLISH_TIME)),
            request_id: None,
        };
        // The body may have taken long to come: whoever was let in then need not be any more.
        let caller = self.caller.still(engine)?;
        match engine.ask(caller.permit(renew)?).await? {
            Ok(lease) => Ok(*lease),
            Err(_) => Err(self.lost().await),
        }
    }

    /// The lock is not the writer's: whose, if anybody's.
    pub(super) async fn lost(&self) -> Refusal {
        match holder(&self.states, &self.caller, &self.state).await {
            Ok(Some(info)) => Refusal::Locked(StatusCode::CONFLICT, Box::new(info)),
            Ok(None) => Refusal::lost(),
            Err(refusal) => refusal,
        }
    }

    fn proof(&self) -> Proof {
        Proof::Owner { lock: self.state.lock.clone(), owner: self.owner.clone() }
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
        // Without a runtime the server is ending, and the lock expires.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(call);
        }
    }
}
