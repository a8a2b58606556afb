//! A lock: the named thing.

use crate::arena::Slot;
use crate::lease::Lease;
use crate::mutant;
use crate::name::{Dialect, LockKey, Owner};
use crate::namespace::Namespace;
use crate::owner::Known;
use crate::queue::Queue;
use crate::time::Timestamp;
use crate::token::Token;

/// A lock in memory.
pub(crate) struct Lock {
    pub(crate) namespace: Slot<Namespace>,
    pub(crate) name: Box<str>,
    pub(crate) last_token: Token,
    pub(crate) usage: Usage,
    /// Set when an exclusive lease expired, until the next grant.
    pub(crate) lapse: Option<Box<Lapse>>,
}

/// A lock is either remembered for its token only, or somebody has to do with it.
pub(crate) enum Usage {
    Idle(Idle),
    Busy(Busy),
}

/// Its place among the idle locks, longest idle first.
#[derive(Clone, Copy)]
pub(crate) struct Idle {
    pub(crate) before: Option<Slot<Lock>>,
    pub(crate) after: Option<Slot<Lock>>,
    pub(crate) since: Timestamp,
}

#[derive(Default)]
pub(crate) struct Busy {
    /// The list of its active leases, most recent first.
    pub(crate) holders: Option<Slot<Lease>>,
    pub(crate) n_holders: u32,
    /// Ended leases that are still remembered.
    pub(crate) n_ended: u32,
    pub(crate) queue: Option<Box<Queue>>,
    /// On the list of locks whose queue has to be looked at again.
    pub(crate) pending: bool,
    /// Its grace period has not been seen to end yet.
    pub(crate) in_grace: bool,
    /// Counted among those that are free though somebody waits for them.
    pub(crate) in_convoy: bool,
}

/// The last owner let the lock expire. Until `grace_until` nobody else gets it.
#[derive(Clone, Copy)]
pub(crate) struct Lapse {
    pub(crate) owner: Slot<Known>,
    pub(crate) dialect: Dialect,
    pub(crate) expired_at: Timestamp,
    pub(crate) grace_until: Timestamp,
}

impl Lapse {
    /// Is this the owner, through the dialect, that let the lock expire?
    pub(crate) fn is_of(&self, owner: Slot<Known>, dialect: Dialect) -> bool {
        self.owner == owner && self.dialect == dialect
    }
}

impl Lock {
    pub(crate) fn busy(&self) -> Option<&Busy> {
        match &self.usage {
            Usage::Busy(busy) => Some(busy),
            Usage::Idle(_) => None,
        }
    }

    /// Of a lock that is known to be in use.
    pub(crate) fn busy_mut(&mut self) -> &mut Busy {
        match &mut self.usage {
            Usage::Busy(busy) => busy,
            Usage::Idle(_) => panic!("an idle lock is used as a busy one"),
        }
    }

    pub(crate) fn queue(&self) -> Option<&Queue> {
        self.busy().and_then(|busy| busy.queue.as_deref())
    }

    pub(crate) fn n_holders(&self) -> u32 {
        self.busy().map_or(0, |busy| busy.n_holders)
    }

    /// The grace period that excludes all but one owner at `now`, if any.
    pub(crate) fn grace(&self, now: Timestamp) -> Option<&Lapse> {
        self.lapse.as_deref().filter(|lapse| {
            now < lapse.grace_until && self.n_holders() == 0 && !mutant!(GraceIgnored)
        })
    }
}

impl Busy {
    /// Nobody holds it, no grace keeps it, and still somebody who is there has to wait.
    pub(crate) fn is_convoy(&self) -> bool {
        let Some(queue) = &self.queue else { return false };
        self.n_holders == 0 && !self.in_grace && queue.n_ready() > 0
    }

    /// Nobody has to do with the lock any more.
    pub(crate) fn is_over(&self) -> bool {
        self.holders.is_none()
            && self.queue.is_none()
            && self.n_ended == 0
            && !self.pending
            && !self.in_grace
    }
}

/// All there is to know of a lock beside its leases, free of slots.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in `Lock`, documented there or plain")]
pub struct LockRecord {
    pub lock: LockKey,
    pub last_token: Token,
    pub lapse: Option<LapseRecord>,
}

/// That an owner let a lock expire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LapseRecord {
    /// Who held it last.
    pub owner: Owner,
    /// Through which dialect.
    pub dialect: Dialect,
    /// When the lease ended.
    pub expired_at: Timestamp,
    /// Until when nobody else gets the lock.
    pub grace_until: Timestamp,
}
