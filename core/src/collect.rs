//! What a reader collects from the machine: which locks and sessions have changed since it last did.

use crate::arena::Slot;
use crate::changed::Changed;
use crate::glance::Glance;
use crate::machine::Machine;
use crate::time::Timestamp;

/// What a reader has to look at.
#[derive(Debug)]
pub struct Collected {
    /// Whether this is the beginning of a complete collection: what the reader collected before does not count.
    pub is_fresh: bool,
    /// The slots of locks, for [`Machine::glance`].
    pub locks: Vec<usize>,
    /// The slots of sessions with their deadlines. `None`: there is no session in the slot.
    pub sessions: Vec<(usize, Option<Timestamp>)>,
    /// How many more locks, or sessions if there are more of them, there are to collect.
    pub n_left: usize,
}

impl Machine {
    /// Collects at most `n_max` locks and `n_max` sessions that have changed since the collection `after`, the last one
    /// that the reader got. The new collection gets the number `id`, which the reader has not used before. A collection
    /// goes on if it is asked for again with the same two numbers.
    ///
    /// If the reader has missed more than one collection, it begins again with all locks and sessions.
    pub fn collect(&mut self, after: u64, id: u64, n_max: usize) -> Collected {
        let state = &mut self.state;
        let known = state.changed.take();
        let known = known.and_then(|mut changed| changed.go_on(after, id).then_some(changed));
        let mut changed = known.unwrap_or_else(|| {
            let (n_locks, n_sessions) = (state.locks.n_slots(), state.sessions.n_slots());
            Box::new(Changed::new(after, id, n_locks, n_sessions))
        });
        let is_fresh = changed.is_fresh;
        let locks = changed.locks.take(n_max);
        let sessions = changed.sessions.take(n_max);
        let deadline = |at| state.sessions.get(at).map(|session| session.deadline);
        let sessions = sessions.into_iter().map(|at| (at, deadline(at))).collect();
        let n_left = changed.locks.len().max(changed.sessions.len());
        state.changed = Some(changed);
        Collected { is_fresh, locks, sessions, n_left }
    }

    /// Records no more changes until the next collection, which begins with all locks.
    pub fn stop_collecting(&mut self) {
        self.state.changed = None;
    }

    /// Returns the lock in a slot, if there is one.
    pub fn glance(&self, at: usize) -> Option<Glance<'_>> {
        let state = &self.state;
        state.locks.get(at).map(|_| Glance { state, slot: Slot::at(at) })
    }

    /// Returns when the session in a slot ends unless it is kept.
    pub fn session_deadline(&self, at: usize) -> Option<Timestamp> {
        self.state.sessions.get(at).map(|session| session.deadline)
    }

    /// Returns the number of slots of locks, used or not.
    pub fn n_slots(&self) -> usize {
        self.state.locks.n_slots()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Acquire, Dialect, Limits, LockKey, Owner, Secret};

    #[test]
    fn one_lost_collection_is_repeated_and_after_two_it_begins_again() {
        let mut machine = Machine::new(Limits::default(), 1);
        let acquire = |machine: &mut Machine, name: &str| {
            let (lock, owner) = (LockKey::new("shop", name), Owner::new("ann", "a"));
            let acquire = Acquire::new(lock, owner, Dialect(0), Secret([1; 16]));
            assert!(machine.apply(Timestamp::ZERO, acquire).outcome.is_ok());
        };
        for name in ["a", "b", "c"] {
            acquire(&mut machine, name);
        }
        let collect = |machine: &mut Machine, after, id| {
            let Collected { is_fresh, locks, n_left, .. } = machine.collect(after, id, 2);
            (is_fresh, locks, n_left)
        };
        assert_eq!(collect(&mut machine, 0, 1), (true, vec![0, 1], 1));
        assert_eq!(collect(&mut machine, 0, 1), (true, vec![2], 0), "it goes on");
        assert_eq!(collect(&mut machine, 0, 2), (true, vec![0, 1], 1), "the first was lost");
        assert_eq!(collect(&mut machine, 2, 3), (false, vec![2], 0));
        acquire(&mut machine, "d");
        assert_eq!(collect(&mut machine, 2, 4), (false, vec![3, 2], 0), "the third was lost");
        assert_eq!(collect(&mut machine, 4, 5), (false, vec![], 0));
        assert_eq!(collect(&mut machine, 2, 6), (true, vec![0, 1], 2), "two were lost");
    }
}
