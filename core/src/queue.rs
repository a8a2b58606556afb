//! The queue of one lock: first in, first out, by lease number.

use std::collections::{BTreeMap, BTreeSet};

use crate::arena::Slot;
use crate::lease::{Lease, LeaseNumber, Mode, Phase};
use crate::mutant;
use crate::owner::Known;

/// The waiting leases of a lock. A lease can leave from any position in O(log n). A parked lease keeps its number, and
/// so its position.
#[derive(Default)]
pub(crate) struct Queue {
    ready: BTreeMap<LeaseNumber, Slot<Lease>>,
    parked: BTreeMap<LeaseNumber, Slot<Lease>>,
    /// The ready leases by owner, because in a grace period one owner goes before all others.
    by_owner: BTreeSet<(Slot<Known>, LeaseNumber)>,
    /// How many leases wait in counted mode, and the limit they share.
    n_counted: usize,
    limit: u32,
}

impl Queue {
    /// Inserts `lease` at its position, among the parked leases if it is parked.
    pub(crate) fn insert(&mut self, lease: &Lease, slot: Slot<Lease>) {
        if let Mode::Counted(limit) = lease.mode.get() {
            self.n_counted += 1;
            self.limit = limit;
        }
        if lease.phase == Phase::Parked {
            self.parked.insert(lease.number, slot);
        } else {
            self.ready.insert(lease.number, slot);
            self.by_owner.insert((lease.owner, lease.number));
        }
    }

    /// Removes `lease`, whether it is parked or not.
    pub(crate) fn remove(&mut self, lease: &Lease) {
        self.n_counted -= usize::from(matches!(lease.mode.get(), Mode::Counted(_)));
        if self.ready.remove(&lease.number).is_some() {
            self.by_owner.remove(&(lease.owner, lease.number));
        } else {
            self.parked.remove(&lease.number);
        }
    }

    /// Returns the limit that the counted waiters share.
    pub(crate) fn limit(&self) -> Option<u32> {
        (self.n_counted > 0).then_some(self.limit)
    }

    /// Returns the next lease to grant.
    pub(crate) fn first(&self) -> Option<Slot<Lease>> {
        if mutant!(QueueLifo) {
            return self.ready.last_key_value().map(|(_, slot)| *slot);
        }
        self.ready.first_key_value().map(|(_, slot)| *slot)
    }

    /// Returns the waiters of `owner` that are not parked, in order.
    pub(crate) fn of(&self, owner: Slot<Known>) -> impl Iterator<Item = Slot<Lease>> + '_ {
        let all = (owner, LeaseNumber(0))..=(owner, LeaseNumber(u64::MAX));
        self.by_owner.range(all).map(|(_, number)| self.ready[number])
    }

    /// Returns all waiters in order, including parked ones.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot<Lease>> + '_ {
        let mut ready = self.ready.iter().peekable();
        let mut parked = self.parked.iter().peekable();
        std::iter::from_fn(move || {
            let parked_first = match (ready.peek(), parked.peek()) {
                (Some((a, _)), Some((b, _))) => b < a,
                (ready, _) => ready.is_none(),
            };
            let next = if parked_first { parked.next() } else { ready.next() };
            next.map(|(_, slot)| *slot)
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.ready.len() + self.parked.len()
    }

    pub(crate) fn n_ready(&self) -> usize {
        self.ready.len()
    }

    /// Used by [`crate::invariant`].
    pub(crate) fn is_consistent(&self) -> bool {
        self.by_owner.len() == self.ready.len()
            && self.by_owner.iter().all(|(_, number)| self.ready.contains_key(number))
            && self.parked.keys().all(|number| !self.ready.contains_key(number))
    }
}
