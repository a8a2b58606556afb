//! One leader at a time, and who it is.
//!
//! A leader is whoever holds a lock, and says who it is by the lock's metadata. It is a leader only as long as its
//! lease lasts: what it does as one has to carry its [token](crate::LockGuard::fencing_token), or check that it
//! still is.

use std::ops::Deref;
use std::time::Duration;

use leasehold_api::LockState;
use serde_json::Value;

use crate::{Client, Error, Events, LockGuard, Watched};

/// An election: `client.election("scheduler")`.
#[derive(Clone, Debug)]
pub struct Election {
    client: Client,
    name: String,
    ttl: Option<Duration>,
}

/// Who leads.
#[derive(Clone, PartialEq, Debug)]
pub struct Leader {
    /// Its owner id.
    pub owner: String,
    /// The fencing token of its term: it grows with every term.
    pub token: u64,
    /// What it said of itself in its [campaign](Election::campaign): an address, perhaps.
    pub value: Value,
}

impl Election {
    pub(crate) fn new(client: Client, name: String) -> Self {
        Self { client, name, ttl: None }
    }

    /// How long a leader that is not heard of stays one: 30 s unless given.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Waits to be the leader, behind those that came before, and announces `value`. Dropping the future gives up.
    pub async fn campaign(&self, value: impl Into<Value>) -> Result<Leadership, Error> {
        let mut request = self.client.lock(&self.name).wait(Duration::MAX).metadata(value);
        if let Some(ttl) = self.ttl {
            request = request.ttl(ttl);
        }
        Ok(Leadership { guard: request.acquire().await? })
    }

    /// Who leads right now.
    pub async fn leader(&self) -> Result<Option<Leader>, Error> {
        Ok(leader(self.client.look(&self.name).await?))
    }

    /// Who leads, and every change of that from now on.
    pub fn observe(&self) -> Observer {
        let events = self.client.watch(&self.name);
        Observer { election: self.clone(), events, told: None }
    }
}

fn leader(state: LockState) -> Option<Leader> {
    let holder = state.holders.into_iter().next()?;
    let value = holder.metadata.unwrap_or(Value::Null);
    Some(Leader { owner: holder.owner_id, token: holder.fencing_token, value })
}

/// A term of leadership. It is a [`LockGuard`]: `lost()` completes when it is over, `check()` says whether it is.
#[derive(Debug)]
#[must_use = "whoever drops this resigns"]
pub struct Leadership {
    guard: LockGuard,
}

impl Leadership {
    /// Lets the next one lead.
    pub async fn resign(self) -> Result<(), Error> {
        self.guard.release().await
    }
}

impl Deref for Leadership {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

/// Tells who leads.
#[derive(Debug)]
pub struct Observer {
    election: Election,
    events: Events,
    /// What was last told.
    told: Option<Option<Leader>>,
}

impl Observer {
    /// Who leads, at first, and then whenever that is another. Leaders of terms that were over before we looked are
    /// left out. An error is as those of [`Events::next`]; calling again tries again.
    pub async fn next(&mut self) -> Result<Option<Leader>, Error> {
        loop {
            if self.told.is_some() {
                match self.events.next().await? {
                    Watched::Event { event, .. } if event.lock_name != self.election.name => {
                        continue;
                    }
                    // Nothing has happened yet that could be looked at, or it follows.
                    Watched::Stale { .. } | Watched::Current { .. } => continue,
                    Watched::Event { .. } | Watched::Gap(_) => {}
                }
            } else {
                // First listen, then look: so nothing is missed in between.
                self.events.connect().await?;
            }
            let leader = self.election.leader().await?;
            if self.told.as_ref() != Some(&leader) {
                self.told = Some(leader.clone());
                return Ok(leader);
            }
        }
    }
}
