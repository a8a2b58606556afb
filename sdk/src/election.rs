//! Leader election: one leader at a time, which all clients can look up.
//!
//! The leader is the client that holds a lock, and the metadata of the lock identifies it. It is the leader only
//! while its lease lasts. So whatever it does as leader must carry its [token](crate::LockGuard::fencing_token), or
//! must first check that it still is the leader.

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

/// The current leader.
#[derive(Clone, PartialEq, Debug)]
pub struct Leader {
    /// The owner id of the leader.
    pub owner: String,
    /// The fencing token of the leader's term. It increases with every term.
    pub token: u64,
    /// The value that the leader announced in its [campaign](Election::campaign), such as its address.
    pub value: Value,
}

impl Election {
    pub(crate) fn new(client: Client, name: String) -> Self {
        Self { client, name, ttl: None }
    }

    /// How long a leader stays leader if it stops renewing. Default: 30 s.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Waits in the queue to become the leader, then announces `value`. Dropping the future leaves the queue.
    pub async fn campaign(&self, value: impl Into<Value>) -> Result<Leadership, Error> {
        let mut request = self.client.lock(&self.name).wait(Duration::MAX).metadata(value);
        if let Some(ttl) = self.ttl {
            request = request.ttl(ttl);
        }
        Ok(Leadership { guard: request.acquire().await? })
    }

    /// Returns the current leader, if there is one.
    pub async fn leader(&self) -> Result<Option<Leader>, Error> {
        Ok(leader(self.client.look(&self.name).await?))
    }

    /// Returns an observer that reports the current leader and every later leader change.
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

/// A term of leadership. It is a [`LockGuard`]: `lost()` completes when the term ends, `check()` returns whether it
/// still lasts.
#[derive(Debug)]
#[must_use = "dropping this resigns the leadership"]
pub struct Leadership {
    guard: LockGuard,
}

impl Leadership {
    /// Gives up the leadership, so that the next candidate becomes the leader.
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

/// Reports the leader and every leader change.
#[derive(Debug)]
pub struct Observer {
    election: Election,
    events: Events,
    /// The last leader reported.
    told: Option<Option<Leader>>,
}

impl Observer {
    /// Returns the current leader on the first call, and afterwards each new leader. It skips terms that ended before
    /// it could read them. Errors are those of [`Events::next`]; calling again retries.
    pub async fn next(&mut self) -> Result<Option<Leader>, Error> {
        loop {
            if self.told.is_some() {
                match self.events.next().await? {
                    Watched::Event { event, .. } if event.lock_name != self.election.name => {
                        continue;
                    }
                    // These report no change of a lock, or the change follows.
                    Watched::Stale { .. } | Watched::Current { .. } => continue,
                    Watched::Event { .. } | Watched::Gap(_) => {}
                }
            } else {
                // Subscribe first, then read, so that no change in between is missed.
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
