//! A lock: a named resource that leases hold.

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
    /// Set when an exclusive lease expires, cleared by the next grant.
    pub(crate) lapse: Option<Box<Lapse>>,
}

/// Whether a lock is in use, or remembered only for its last token.
pub(crate) enum Usage {
    Idle(Idle),
    Busy(Busy),
}

/// The links and the start time of a lock in the list of idle locks, longest idle first.
#[derive(Clone, Copy)]
pub(crate) struct Idle {
    pub(crate) before: Option<Slot<Lock>>,
    pub(crate) after: Option<Slot<Lock>>,
    pub(crate) since: Timestamp,
}

#[derive(Default)]
pub(crate) struct Busy {
    /// The head of the list of active leases, most recent first.
    pub(crate) holders: Option<Slot<Lease>>,
    pub(crate) n_holders: u32,
    /// How many ended leases are still remembered.
    pub(crate) n_ended: u32,
    pub(crate) queue: Option<Box<Queue>>,
    /// Whether the lock is on the list of queues to check again.
    pub(crate) pending: bool,
    /// Whether its grace period is still counted as running. It can be past its end until the next sweep.
    pub(crate) in_grace: bool,
    /// Whether the lock is counted as a convoy: free, but with waiters.
    pub(crate) in_convoy: bool,
}

/// Records that the last owner let its lease expire. Until `grace_until`, only that owner can acquire the lock.
#[derive(Clone, Copy)]
pub(crate) struct Lapse {
    pub(crate) owner: Slot<Known>,
    pub(crate) dialect: Dialect,
    pub(crate) expired_at: Timestamp,
    pub(crate) grace_until: Timestamp,
}

impl Lapse {
    /// Returns whether this owner let the lock expire through this dialect.
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

    /// Returns the usage of a lock that is known to be in use.
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

    /// Returns the grace period that reserves the lock for one owner at `now`, if any.
    pub(crate) fn grace(&self, now: Timestamp) -> Option<&Lapse> {
        self.lapse.as_deref().filter(|lapse| {
            now < lapse.grace_until && self.n_holders() == 0 && !mutant!(GraceIgnored)
        })
    }
}

impl Busy {
    /// Returns whether the lock is free and not reserved, but still has waiters that are present.
    pub(crate) fn is_convoy(&self) -> bool {
        let Some(queue) = &self.queue else { return false };
        self.n_holders == 0 && !self.in_grace && queue.n_ready() > 0
    }

    /// Returns whether the lock has no leases, no waiters, no grace period and no pending check.
    pub(crate) fn is_over(&self) -> bool {
        self.holders.is_none()
            && self.queue.is_none()
            && self.n_ended == 0
            && !self.pending
            && !self.in_grace
    }
}

/// The complete state of a lock without its leases, with names instead of slots.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in `Lock`, documented there or plain")]
pub struct LockRecord {
    pub lock: LockKey,
    pub last_token: Token,
    pub lapse: Option<LapseRecord>,
}

/// Records that an owner let a lock expire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LapseRecord {
    /// The owner of the expired lease.
    pub owner: Owner,
    /// The dialect of the expired lease.
    pub dialect: Dialect,
    /// When the lease expired.
    pub expired_at: Timestamp,
    /// Until when only this owner can acquire the lock.
    pub grace_until: Timestamp,
}
