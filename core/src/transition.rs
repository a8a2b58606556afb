//! The execution of one command: the operations that all commands share.
//!
//! Deciding code reads the state freely, but changes it only through [`Transition::record`]. The rules for granting
//! locks are all in this file.

use std::collections::VecDeque;

use crate::arena::Slot;
use crate::change::Change;
use crate::fact::Fact;
use crate::lease::{Ending, Lease, LeaseNumber, Phase};
use crate::limits::Limits;
use crate::lock::Lock;
use crate::mutant;
use crate::name::{Dialect, Owner};
use crate::request::Request;
use crate::state::State;
use crate::time::Timestamp;
use crate::view::{self, LeaseView};

/// Minimum number of holders of one lock that a command checks, even if fewer may hold the lock.
const SETTLED_MAX: u32 = 10_000;

/// The execution of one command at time `now`.
pub struct Transition<'m> {
    pub(crate) state: &'m mut State,
    pub(crate) limits: &'m Limits,
    pub(crate) now: Timestamp,
    /// The changes of the batch. Those of earlier commands come first.
    pub(crate) changes: &'m mut Vec<Change>,
    /// The number of changes by earlier commands.
    pub(crate) n_before: usize,
    pub(crate) wakeups: Vec<LeaseNumber>,
    pub(crate) facts: &'m mut Vec<Fact>,
    /// Locks whose queues must be checked, because this command released or acquired them together with another lock.
    pub(crate) stirred: VecDeque<Slot<Lock>>,
}

/// How a lease ends.
#[derive(Clone)]
pub(crate) struct End {
    pub(crate) how: Ending,
    pub(crate) at: Timestamp,
    pub(crate) request: Option<Request>,
    pub(crate) reason: Option<std::sync::Arc<str>>,
}

impl End {
    pub(crate) fn new(how: Ending, at: Timestamp) -> Self {
        Self { how, at, request: None, reason: None }
    }
}

impl Transition<'_> {
    /// Applies a change to the state and records it.
    pub(crate) fn record(&mut self, change: Change) {
        self.facts.extend(self.state.fact(&change));
        if let Err(incoherent) = self.state.absorb(self.now, &change) {
            panic!("a command decided on something impossible: {incoherent}");
        }
        self.changes.push(change);
    }

    /// Returns how many changes this command has made so far.
    pub(crate) fn n_changes(&self) -> usize {
        self.changes.len() - self.n_before
    }

    /// Brings a lock up to date at `now`: ends overdue holders and grants the lock to the next waiters. Afterwards the
    /// state of the lock is accurate, whether or not a sweep has run.
    pub(crate) fn settle(&mut self, lock: Slot<Lock>) {
        self.expire_holders(lock);
        self.promote(lock);
    }

    /// Ends the overdue leases of a lock. Only a shared lock can have more holders than are checked here. The sweep
    /// ends the others; until then, they block the lock.
    pub(crate) fn expire_holders(&mut self, lock: Slot<Lock>) {
        if self.state.is_behind(self.now) && !mutant!(ExpireBySweepOnly) {
            let n_max = self.limits.holders_max.max(SETTLED_MAX) as usize;
            let holders: Vec<_> = self.state.holders(lock).take(n_max).collect();
            for holder in holders {
                self.expire_if_due(holder);
            }
        }
    }

    /// Ends a lease if its deadline or its session's has passed. If it waits in a group, the whole group ends. Returns
    /// whether it ended.
    pub(crate) fn expire_if_due(&mut self, slot: Slot<Lease>) -> bool {
        let overdue = self.state.overdue(&self.state.leases[slot], self.now);
        if let Some((how, at)) = overdue {
            self.end(slot, End::new(how, at));
        }
        overdue.is_some()
    }

    /// Ends a lease. If it waits in a group, the whole group ends.
    pub(crate) fn end(&mut self, slot: Slot<Lease>, end: End) {
        let lease = &self.state.leases[slot];
        let was_queued = lease.phase.is_queued();
        if was_queued && let Some(group) = lease.group() {
            return self.end_together(slot, group, end);
        }
        // A lease that was never granted need not be remembered. A released lease is remembered for its request ids. A
        // lost lease is remembered so that its owner can be told how it ended.
        let is_remembered = !was_queued
            && (end.how != Ending::Released
                || end.request.is_some()
                || !lease.requests().is_empty());
        let (number, kept) = (lease.number, lease.keep || is_remembered);
        let End { how, at, request, reason } = end;
        self.record(Change::Ended { lease: number, how, at, kept, request, reason });
        if was_queued {
            self.wakeups.push(number);
        }
    }

    /// Grants a lock to the next waiters as long as it admits them, and then checks all locks in `stirred`. The number
    /// of steps is bounded: the next sweep does the rest.
    pub(crate) fn promote(&mut self, lock: Slot<Lock>) {
        let mut n_steps = 0;
        self.promote_one(lock, &mut n_steps);
        while let Some(lock) = self.stirred.pop_front() {
            self.promote_one(lock, &mut n_steps);
        }
    }

    /// Brings all locks in `stirred` up to date, if there are any.
    pub(crate) fn promote_stirred(&mut self) {
        if let Some(lock) = self.stirred.pop_front() {
            self.promote(lock);
        }
    }

    fn promote_one(&mut self, lock: Slot<Lock>, n_steps: &mut usize) {
        while let Some(waiter) = self.state.next_waiter(lock, self.now) {
            if *n_steps >= self.limits.promote_steps_max {
                return self.postpone(lock);
            }
            *n_steps += 1;
            if !mutant!(GrantWithoutRecheck) && self.expire_if_due(waiter) {
                continue;
            }
            let Lease { mode, dialect, .. } = self.state.leases[waiter];
            if !self.state.admits(lock, (mode.get(), dialect), self.limits) {
                return;
            }
            match self.state.leases[waiter].group() {
                Some(group) if !mutant!(GroupGrantedLockByLock) => {
                    *n_steps += group.size as usize;
                    if !self.grant_together(group) {
                        return;
                    }
                }
                _ => self.grant(waiter),
            }
        }
    }

    fn grant(&mut self, waiter: Slot<Lease>) {
        let lease = &self.state.leases[waiter];
        let number = lease.number;
        let namespace = self.state.namespace_of(lease);
        let Some(token) = self.state.next_token(Some(lease.lock), namespace) else {
            let reason = Some("this lock has had all the tokens there are".into());
            return self.end(waiter, End { reason, ..End::new(Ending::Revoked, self.now) });
        };
        let deadline = lease.ttl.from(self.now);
        self.record(Change::Granted { lease: number, token, at: self.now, deadline });
        self.wakeups.push(number);
    }

    /// Schedules a check of the lock's queue for the next sweep.
    pub(crate) fn postpone(&mut self, lock: Slot<Lock>) {
        let busy = self.state.locks[lock].busy_mut();
        if !busy.pending {
            busy.pending = true;
            self.state.pending.push_back(lock);
        }
    }

    /// Returns the lease through which this owner holds the lock, in this dialect.
    pub(crate) fn held_by(
        &self,
        lock: Slot<Lock>,
        owner: &Owner,
        dialect: Dialect,
    ) -> Option<Slot<Lease>> {
        let owner = self.state.owners.find(owner)?;
        self.state.holders(lock).find(|slot| {
            let lease = &self.state.leases[*slot];
            lease.owner == owner && lease.dialect == dialect
        })
    }

    pub(crate) fn view(&self, slot: Slot<Lease>) -> LeaseView {
        view::lease(self.state, &self.state.leases[slot])
    }

    pub(crate) fn phase(&self, slot: Slot<Lease>) -> Phase {
        self.state.leases[slot].phase
    }
}
