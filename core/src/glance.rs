//! A cheap read-only view of one lock, for code that counts or searches all of them. It copies nothing and settles
//! nothing.

use std::sync::Arc;

use crate::arena::Slot;
use crate::lease::Lease;
use crate::lock::{Busy, Lapse, Lock};
use crate::name::{Dialect, Owner};
use crate::session::Session;
use crate::state::State;
use crate::time::Timestamp;

/// A lock as it is stored. Overdue leases and grace periods that no command has ended yet can still be visible.
#[derive(Clone, Copy)]
pub struct Glance<'a> {
    pub(crate) state: &'a State,
    pub(crate) slot: Slot<Lock>,
}

/// An owner of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnerSeen<'a> {
    /// The slot of the owner. No other owner has it as long as the owner holds or waits for a lock.
    pub at: usize,
    /// The owner.
    pub owner: &'a Owner,
    /// The dialect of the owner's lease.
    pub dialect: Dialect,
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

    fn lapse(self) -> Option<&'a Lapse> {
        let lock = self.lock();
        let in_grace = lock.busy().is_some_and(|busy: &Busy| busy.in_grace && busy.n_holders == 0);
        lock.lapse.as_deref().filter(|_| in_grace)
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
        self.lapse().map(|lapse| lapse.grace_until)
    }

    /// Returns when the latest holder was granted the lock.
    pub fn held_since(self) -> Option<Timestamp> {
        self.latest().map(|lease| lease.granted_at)
    }

    /// Returns when the latest holder's lease ends unless it is renewed, and without its session. `None` if the lock is
    /// free or the lease never expires.
    pub fn deadline(self) -> Option<Timestamp> {
        self.latest().and_then(|lease| lease.deadline.finite())
    }

    /// Returns the slot of the session that the latest holder's lease belongs to. The lease does not outlive it.
    pub fn session(self) -> Option<usize> {
        self.latest().and_then(Lease::session).map(Slot::<Session>::index)
    }

    /// Returns when the first waiter in the queue started to wait.
    pub fn waited_since(self) -> Option<Timestamp> {
        self.waiters().next().map(Lease::created_at)
    }

    /// Returns the dialect of the latest holder, else of the owner the lock is reserved for, else of the first waiter.
    pub fn dialect(self) -> Option<Dialect> {
        let reserved = || self.lapse().map(|lapse| lapse.dialect);
        let waiting = || self.waiters().next().map(|lease| lease.dialect);
        self.latest().map(|lease| lease.dialect).or_else(reserved).or_else(waiting)
    }

    /// Returns the holders, latest first, then the waiters in order, at most `n_max` of each.
    pub fn owners(self, n_max: usize) -> impl Iterator<Item = OwnerSeen<'a>> {
        let state = self.state;
        let holders = state.holders(self.slot).take(n_max).map(move |slot| &state.leases[slot]);
        let owner = move |lease: &'a Lease| OwnerSeen {
            at: lease.owner.index(),
            owner: state.owner(lease.owner),
            dialect: lease.dialect,
        };
        holders.map(owner).chain(self.waiters().take(n_max).map(owner))
    }
}

#[cfg(test)]
mod tests {
    use crate::*;

    fn acquire(name: &str, owner: &str, dialect: u8) -> Acquire {
        let owner = Owner::new("ann", owner);
        Acquire::new(LockKey::new("shop", name), owner, Dialect(dialect), Secret([1; 16]))
    }

    #[test]
    fn a_lock_is_seen_as_it_is_stored() {
        let mut machine = Machine::new(Limits::default(), 1);
        let at = |s| Timestamp::ZERO + Span::from_secs(s);
        let ttl = Some(Span::from_secs(30));
        let wanted = Acquire { ttl, ..acquire("n3", "a", 1) };
        assert!(machine.apply(at(3), wanted).outcome.is_ok());
        let waits = Acquire { wait: Wait::Connected(Span::from_secs(60)), ..acquire("n3", "b", 2) };
        assert!(machine.apply(at(12), waits).outcome.is_ok());
        let lock = machine.glance(0).expect("it is there");
        assert_eq!((&**lock.namespace(), lock.name(), lock.n_holders()), ("shop", "n3", 1));
        assert_eq!((lock.held_since(), lock.deadline()), (Some(at(3)), Some(at(33))));
        assert_eq!((lock.waited_since(), lock.grace_until()), (Some(at(12)), None));
        assert_eq!((lock.dialect(), lock.session()), (Some(Dialect(1)), None));
        let owners: Vec<_> = lock.owners(5).map(|seen| &*seen.owner.instance).collect();
        assert_eq!(owners, ["a", "b"]);
        assert!(machine.glance(1).is_none());
    }
}
