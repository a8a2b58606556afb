//! The facts about what happened to leases. Events, history and audit are all derived from them.
//!
//! A fact follows from a change and the state just before it, whether a command, a replay, a fold or a follower applies
//! the change. So the same journal always yields the same facts in the same order.

use std::sync::Arc;

use crate::asker::Asker;
use crate::change::{Change, Note};
use crate::lease::{Ending, Lease, LeaseNumber, LeaseRecord, Phase};
use crate::mutant;
use crate::name::{Dialect, LockKey, Owner};
use crate::share::is_share;
use crate::state::State;
use crate::time::{Span, Timestamp};
use crate::token::Token;

/// An event in the life of a lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fact {
    /// The kind of event.
    pub what: What,
    /// The lease it happened to.
    pub lease: LeaseNumber,
    /// The lease's lock.
    pub lock: LockKey,
    /// The lease's owner.
    pub owner: Owner,
    /// The dialect of the request for the lease.
    pub dialect: Dialect,
    /// The lease's token; zero if it was never granted.
    pub token: Token,
    /// When it happened.
    pub at: Timestamp,
    /// How long the lease waited in the queue until then, or until its grant.
    pub waited: Span,
    /// How long it held the lock until then.
    pub held: Span,
    /// The reason of a revocation, or the details of a note.
    pub reason: Option<Arc<str>>,
    /// The caller of the command that recorded it. `None` if no caller was recorded.
    pub asker: Option<Arc<Asker>>,
}

/// The kind of event in the life of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// The lease joined the queue of its lock.
    Queued,
    /// The lease was granted the lock.
    Granted,
    /// The lease ended after it held the lock.
    Ended(Ending),
    /// The lease left the queue without a grant.
    WaitEnded(Ending),
    /// Nothing changed, but an observation was recorded.
    Noted(Note),
}

impl Fact {
    /// Returns the caller that caused the fact. Returns `None` for expiries, which no caller causes, even if a caller's
    /// command noticed them.
    pub fn by(&self) -> Option<&Asker> {
        let has_asker = match self.what {
            What::Ended(ending) | What::WaitEnded(ending) => ending != Ending::Expired,
            What::Queued | What::Granted => true,
            What::Noted(_) => false,
        };
        self.asker.as_deref().filter(|_| has_asker)
    }
}

impl State {
    /// Returns the fact about a change, from the state before the change. There are no facts about shares.
    pub(crate) fn fact(&self, change: &Change) -> Option<Fact> {
        match change {
            Change::LeaseAdded(record) => {
                let is_told = !is_share(record.dialect, &record.lock.name);
                Some(record).filter(|_| is_told || mutant!(SharesTold)).and_then(|new| of_new(new))
            }
            Change::Granted { lease, token, at, .. } => {
                let fact = self.of(*lease, What::Granted, *at)?;
                Some(Fact { token: *token, ..fact })
            }
            Change::Ended { lease, how, at, reason, .. } => {
                let was_active = self.leases[self.find_lease(*lease)?].is_active();
                let what = if was_active { What::Ended(*how) } else { What::WaitEnded(*how) };
                let fact = self.of(*lease, what, *at)?;
                Some(Fact { reason: reason.clone(), ..fact })
            }
            Change::Noted { lease, what, at, reason } => {
                let fact = self.of(*lease, What::Noted(*what), *at)?;
                Some(Fact { reason: reason.clone(), ..fact })
            }
            _ => None,
        }
    }

    fn of(&self, number: LeaseNumber, what: What, at: Timestamp) -> Option<Fact> {
        let lease = &self.leases[self.find_lease(number)?];
        if self.is_share(lease) && !mutant!(SharesTold) {
            return None;
        }
        let (waited, held) = durations(lease, at);
        Some(Fact {
            what,
            lease: number,
            lock: self.key(lease.lock),
            owner: self.owner(lease.owner).clone(),
            dialect: lease.dialect,
            token: lease.token,
            at,
            waited,
            held,
            reason: None,
            asker: None,
        })
    }
}

/// Returns the fact about a new lease. A lease that is imported after its end has no new fact, because its facts were
/// reported before.
fn of_new(record: &LeaseRecord) -> Option<Fact> {
    let what = match record.phase {
        Phase::Active => What::Granted,
        Phase::Waiting | Phase::Parked => What::Queued,
        Phase::Ended(_) => return None,
    };
    Some(Fact {
        what,
        lease: record.number,
        lock: record.lock.clone(),
        owner: record.owner.clone(),
        dialect: record.dialect,
        token: record.token,
        at: record.created_at,
        waited: Span::ZERO,
        held: Span::ZERO,
        reason: None,
        asker: None,
    })
}

/// Returns how long a lease had waited and held its lock at `at`.
fn durations(lease: &Lease, at: Timestamp) -> (Span, Span) {
    let created_at = lease.created_at();
    if lease.is_active() {
        (lease.granted_at.since(created_at), at.since(lease.granted_at))
    } else {
        (at.since(created_at), Span::ZERO)
    }
}
