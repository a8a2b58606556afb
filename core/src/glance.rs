//! A cheap read-only view of many locks, for code that counts or searches all of them. It copies nothing and settles
//! nothing.

use std::sync::Arc;

use crate::arena::Slot;
use crate::lease::Lease;
use crate::lock::Lock;
use crate::machine::Machine;
use crate::name::{Dialect, Owner};
use crate::state::State;
use crate::time::Timestamp;

/// A lock as it is stored. Overdue leases and grace periods that no command has ended yet can still be visible.
#[derive(Clone, Copy)]
pub struct Glance<'a> {
    state: &'a State,
    slot: Slot<Lock>,
}

impl<'a> Glance<'a> {
    fn lock(self) -> &'a Lock {
        &self.state.locks[self.slot]
    }

    fn latest(self) -> Option<&'a Lease> {
        self.state.holders(self.slot).next().map(|slot| &self.state.leases[slot])
    }

    fn waiters(self) -> impl Iterator<Item = &'a Lease> {
        let Self { state, .. } = self;
        let queue = self.lock().queue().into_iter().flat_map(|queue| queue.iter());
        queue.map(move |slot| &state.leases[slot])
    }

    /// The lock's namespace.
    pub fn namespace(self) -> &'a Arc<str> {
        &self.state.namespaces.get(self.lock().namespace).name
    }

    /// The lock's name in its namespace.
    pub fn name(self) -> &'a str {
        &self.lock().name
    }

    /// Returns the number of holders.
    pub fn n_holders(self) -> usize {
        self.lock().n_holders() as usize
    }

    /// Returns the number of waiters.
    pub fn n_waiting(self) -> usize {
        self.lock().queue().map_or(0, |queue| queue.len())
    }

    /// Returns whether the lock has only shares. No client names such a lock.
    pub fn is_only_shared(self) -> bool {
        self.state.is_only_shared(self.slot)
    }

    /// Returns until when the lock is reserved for its last owner, if it is.
    pub fn grace_until(self) -> Option<Timestamp> {
        self.lock().grace(self.state.now).map(|lapse| lapse.grace_until)
    }

    /// Returns when the latest holder was granted the lock.
    pub fn held_since(self) -> Option<Timestamp> {
        self.latest().map(|lease| lease.granted_at)
    }

    /// Returns when the latest holder's lease ends unless it is renewed. `None` if the lock is free or the lease never
    /// expires.
    pub fn deadline(self) -> Option<Timestamp> {
        self.latest().and_then(|lease| self.state.deadline(lease).finite())
    }

    /// Returns when the first waiter in the queue started to wait.
    pub fn waited_since(self) -> Option<Timestamp> {
        self.waiters().next().map(Lease::created_at)
    }

    /// Returns the dialect of the latest holder, else of the owner the lock is reserved for, else of the first waiter.
    pub fn dialect(self) -> Option<Dialect> {
        let reserved = || self.lock().grace(self.state.now).map(|lapse| lapse.dialect);
        let waiting = || self.waiters().next().map(|lease| lease.dialect);
        self.latest().map(|lease| lease.dialect).or_else(reserved).or_else(waiting)
    }

    /// Returns the holders, latest first, then the waiters in order, at most `n_max` of each, with their dialects.
    pub fn owners(self, n_max: usize) -> impl Iterator<Item = (Dialect, &'a Owner)> {
        let state = self.state;
        let holders = state.holders(self.slot).take(n_max).map(move |slot| &state.leases[slot]);
        let owner = move |lease: &'a Lease| (lease.dialect, state.owner(lease.owner));
        holders.map(owner).chain(self.waiters().take(n_max).map(owner))
    }
}

impl Machine {
    /// Returns the locks in the `n_max` slots that start at `from`, and the slot to continue at. The order is arbitrary
    /// but stable. A lock that is forgotten and named again during the iteration can appear twice or not at all.
    pub fn glances(
        &self,
        from: usize,
        n_max: usize,
    ) -> (impl Iterator<Item = Glance<'_>>, Option<usize>) {
        let (state, n_slots) = (&self.state, self.state.locks.n_slots());
        let next = from.saturating_add(n_max);
        let among =
            state.locks.iter_among(from, n_max).map(move |(slot, _)| Glance { state, slot });
        (among, (next < n_slots).then_some(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Acquire, Limits, LockKey, Secret, Span, Wait};

    fn acquire(name: &str, owner: &str, dialect: u8) -> Acquire {
        let owner = Owner::new("ann", owner);
        Acquire::new(LockKey::new("shop", name), owner, Dialect(dialect), Secret([1; 16]))
    }

    #[test]
    fn every_lock_is_met_once_and_as_it_is_remembered() {
        let mut machine = Machine::new(Limits::default(), 1);
        let at = |s| Timestamp::ZERO + Span::from_secs(s);
        let ttl = Some(Span::from_secs(30));
        for n in 0..10 {
            let wanted = Acquire { ttl, ..acquire(&format!("n{n}"), "a", 1) };
            assert!(machine.apply(at(n), wanted).outcome.is_ok());
        }
        let waits = Acquire { wait: Wait::Connected(Span::from_secs(60)), ..acquire("n3", "b", 2) };
        assert!(machine.apply(at(12), waits).outcome.is_ok());
        let (mut seen, mut from) = (Vec::new(), Some(0));
        while let Some(place) = from {
            let (some, next) = machine.glances(place, 4);
            seen.extend(some.map(|lock| (lock.name().to_owned(), lock.n_waiting())));
            from = next;
        }
        seen.sort();
        let expected: Vec<_> = (0..10).map(|n| (format!("n{n}"), usize::from(n == 3))).collect();
        assert_eq!(seen, expected);
        let (mut all, _) = machine.glances(0, 100);
        let third = all.find(|lock| lock.name() == "n3").expect("it is there");
        assert_eq!((&**third.namespace(), third.n_holders()), ("shop", 1));
        assert_eq!((third.held_since(), third.deadline()), (Some(at(3)), Some(at(33))));
        assert_eq!((third.waited_since(), third.grace_until()), (Some(at(12)), None));
        assert_eq!(third.dialect(), Some(Dialect(1)));
        let owners: Vec<_> = third.owners(5).map(|(_, owner)| &*owner.instance).collect();
        assert_eq!(owners, ["a", "b"]);
    }
}
