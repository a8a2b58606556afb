//! Leases that were asked for together: several locks or none.
//!
//! They are bound together only while they wait. Each stands in the queue of its own lock, in its own place by its own
//! number, and they are granted when each of them is next there and admitted. Their numbers follow each other, and one
//! order of numbers holds for all queues: so two groups never stand in opposite order in two of them, and whoever
//! waits, waits for holders, for a grace period or for smaller numbers, never in a circle.

use crate::arena::Slot;
use crate::change::Change;
use crate::lease::{Ending, Lease, LeaseNumber};
use crate::limits::Limits;
use crate::lock::Lock;
use crate::mutant;
use crate::state::State;
use crate::time::Timestamp;
use crate::transition::{End, Transition};

/// Leases that were asked for together, several locks or none: their numbers follow each other. While they wait they
/// are
/// one; once they are granted, each is a lease like any other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// The number of the first of them.
    pub first: LeaseNumber,
    /// How many they are: at least two.
    pub size: u32,
}

impl Group {
    /// The numbers of all its leases, in the order in which their locks were asked for.
    pub fn numbers(self) -> impl Iterator<Item = LeaseNumber> + Clone {
        (self.first.0..self.first.0 + u64::from(self.size)).map(LeaseNumber)
    }
}

impl State {
    /// The leases of a group that are still known, in order.
    pub(crate) fn members(&self, group: Group) -> impl Iterator<Item = Slot<Lease>> + '_ {
        group.numbers().filter_map(|number| self.find_lease(number))
    }

    /// A lease and, if it was asked for with others, those of them that are still known, in order.
    pub(crate) fn together(&self, slot: Slot<Lease>) -> Vec<Slot<Lease>> {
        self.leases[slot].group().map_or_else(|| vec![slot], |group| self.members(group).collect())
    }

    /// The first of a waiting group that keeps it from being granted: it is not its turn, or its lock does not admit
    /// it. Nobody passes a group, so it may have to wait for a lock that is free.
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
    /// Makes several locks what they truly are, with one bound on the work for all of them.
    pub(crate) fn settle_all(&mut self, locks: impl IntoIterator<Item = Slot<Lock>>) {
        for lock in locks {
            self.expire_holders(lock);
            self.stirred.push_back(lock);
        }
        self.promote_stirred();
    }

    /// Those who wait together are over together, and every queue they leave is looked at again.
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

    /// Grants all or none. `false`: they have to wait.
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
            // If it shares its lock, others may follow it in.
            self.stirred.push_back(lock);
        }
        self.wakeups.push(group.first);
        true
    }
}
