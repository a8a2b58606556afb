//! Groups: leases that were requested together, on several locks or none.
//!
//! A group is bound together only while it waits. Each of its leases has its own position in the queue of its lock, by
//! its own number. All are granted together when each is next in its queue and admitted by its lock. The numbers of a
//! group are consecutive, and all queues use the same order of numbers. So two groups never have opposite orders in two
//! queues. A waiter waits only for holders, for a grace period or for smaller numbers, so there are no circular waits.

use crate::arena::Slot;
use crate::change::Change;
use crate::lease::{Ending, Lease, LeaseNumber};
use crate::limits::Limits;
use crate::lock::Lock;
use crate::mutant;
use crate::state::State;
use crate::time::Timestamp;
use crate::transition::{End, Transition};

/// Leases that were requested together, on several locks or none, with consecutive numbers. While they wait, they act
/// as one. Once granted, each is independent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// The number of the first lease.
    pub first: LeaseNumber,
    /// The number of leases, at least two.
    pub size: u32,
}

impl Group {
    /// Returns the numbers of all its leases, in the order of the request.
    pub fn numbers(self) -> impl Iterator<Item = LeaseNumber> + Clone {
        (self.first.0..self.first.0 + u64::from(self.size)).map(LeaseNumber)
    }
}

impl State {
    /// Returns the leases of a group that are still known, in order.
    pub(crate) fn members(&self, group: Group) -> impl Iterator<Item = Slot<Lease>> + '_ {
        group.numbers().filter_map(|number| self.find_lease(number))
    }

    /// Returns a lease and the other leases of its group that are still known, in order.
    pub(crate) fn together(&self, slot: Slot<Lease>) -> Vec<Slot<Lease>> {
        self.leases[slot].group().map_or_else(|| vec![slot], |group| self.members(group).collect())
    }

    /// Returns the first lease of a waiting group that blocks the grant, because another waiter is ahead of it or its
    /// lock does not admit it. No waiter passes a group, so even a free lock can have waiters.
    pub(crate) fn first_held_up(
        &self,
        group: Group,
        now: Timestamp,
        limits: &Limits,
    ) -> Option<Slot<Lease>> {
        self.members(group).find(|member| {
            let Lease { lock, mode, dialect, .. } = self.leases[*member];
            let is_next =
                self.next_waiter(lock, now) == Some(*member) || mutant!(GroupPassesOthers);
            !is_next || !self.admits(lock, (mode.get(), dialect), limits)
        })
    }
}

impl Transition<'_> {
    /// Settles several locks, with one bound on the work for all of them.
    pub(crate) fn settle_all(&mut self, locks: impl IntoIterator<Item = Slot<Lock>>) {
        for lock in locks {
            self.expire_holders(lock);
            self.stirred.push_back(lock);
        }
        self.promote_stirred();
    }

    /// Ends all leases of a waiting group, and schedules a check of every queue they leave.
    pub(crate) fn end_together(&mut self, slot: Slot<Lease>, group: Group, end: End) {
        let members =
            if mutant!(GroupEndedInPart) { vec![slot] } else { self.state.together(slot) };
        for member in members {
            let Lease { number, lock, keep: kept, .. } = self.state.leases[member];
            let End { how, at, request, reason } = end.clone();
            self.record(Change::Ended { lease: number, how, at, kept, request, reason });
            if !mutant!(GroupEndsWithoutPromote) {
                self.stirred.push_back(lock);
            }
        }
        self.wakeups.push(group.first);
    }

    /// Grants all leases of a group, or none. Returns false if the group still has to wait.
    pub(crate) fn grant_together(&mut self, group: Group) -> bool {
        if self.state.first_held_up(group, self.now, self.limits).is_some() {
            return false;
        }
        let members: Vec<_> = self.state.members(group).collect();
        let tokens: Option<Vec<_>> = members
            .iter()
            .map(|member| {
                let lease = &self.state.leases[*member];
                self.state.next_token(Some(lease.lock), self.state.namespace_of(lease))
            })
            .collect();
        let Some(tokens) = tokens else {
            let reason = Some("one of these locks has had all the tokens there are".into());
            let end = End { reason, ..End::new(Ending::Revoked, self.now) };
            self.end_together(members[0], group, end);
            return true;
        };
        for (member, token) in members.into_iter().zip(tokens) {
            let Lease { number, lock, ttl, .. } = self.state.leases[member];
            let deadline = ttl.from(self.now);
            self.record(Change::Granted { lease: number, token, at: self.now, deadline });
            // If this lease shares its lock, the waiters behind it might be admitted too.
            self.stirred.push_back(lock);
        }
        self.wakeups.push(group.first);
        true
    }
}
