//! Which locks and sessions have changed since a reader last collected them.
//!
//! A reader outside the machine keeps a copy of what lists show of every lock. It first collects every lock, a few at a
//! time, and from then on only those that have changed. Nothing is recorded before the first collection, and a lock
//! that changes many times between two collections is recorded once. A mark takes at most 33 bits.
//!
//! Marks are collected in the order in which they were made. So a reader that collects as many as there are has seen
//! everything that had happened until then, whatever is marked meanwhile.

use std::collections::VecDeque;

use crate::arena::Slot;
use crate::glance::Glance;
use crate::lock::Lock;
use crate::machine::Machine;
use crate::session::Session;
use crate::state::State;
use crate::time::Timestamp;

const WORD_BITS: usize = u64::BITS as usize;

/// The marks for one reader.
pub(crate) struct Changed {
    /// The latest collection, of which it is not known whether the reader got it.
    latest: u64,
    /// The collection before that, which the reader got.
    before: u64,
    /// Whether the latest collection is the first.
    is_fresh: bool,
    locks: Marks,
    sessions: Marks,
}

impl Changed {
    /// Begins or goes on with the collection `id`. Returns whether it goes on from the collection `after`.
    fn go_on(&mut self, after: u64, id: u64) -> bool {
        if self.latest == after {
            self.is_fresh = false;
            self.locks.taken.clear();
            self.sessions.taken.clear();
            (self.before, self.latest) = (after, id);
        } else if self.before == after && self.latest != id {
            // The reader did not get the latest collection.
            self.locks.put_back();
            self.sessions.put_back();
            self.latest = id;
        }
        (self.before, self.latest) == (after, id)
    }
}

/// Numbered slots that a reader has to look at.
struct Marks {
    /// The slots from `scanned` to `scan_until` have never been collected, so they need no marks.
    scanned: usize,
    scan_until: usize,
    is_marked: Vec<u64>,
    marked: VecDeque<u32>,
    /// The slots of the latest collection.
    taken: Vec<usize>,
}

impl Marks {
    /// Begins with all of `n_slots` slots.
    fn new(n_slots: usize) -> Self {
        let (is_marked, marked, taken) = Default::default();
        Self { scanned: 0, scan_until: n_slots, is_marked, marked, taken }
    }

    fn mark(&mut self, at: usize) {
        if (self.scanned..self.scan_until).contains(&at) {
            return;
        }
        let (word, bit) = (at / WORD_BITS, 1 << (at % WORD_BITS));
        if self.is_marked.len() <= word {
            self.is_marked.resize(word + 1, 0);
        }
        if self.is_marked[word] & bit == 0 {
            self.is_marked[word] |= bit;
            self.marked.push_back(at as u32);
        }
    }

    /// Takes at most `n_max` slots, first those that have never been collected.
    fn take(&mut self, n_max: usize) -> Vec<usize> {
        let until = self.scan_until.min(self.scanned.saturating_add(n_max));
        let mut taken: Vec<_> = (self.scanned..until).collect();
        self.scanned = until;
        let n_more = self.marked.len().min(n_max - taken.len());
        for at in self.marked.drain(..n_more) {
            let at = at as usize;
            self.is_marked[at / WORD_BITS] &= !(1 << (at % WORD_BITS));
            taken.push(at);
        }
        self.taken.extend(&taken);
        taken
    }

    /// Marks what was taken in the latest collection again.
    fn put_back(&mut self) {
        for at in std::mem::take(&mut self.taken) {
            self.mark(at);
        }
    }

    /// Returns how many slots there are to take.
    fn len(&self) -> usize {
        self.scan_until - self.scanned + self.marked.len()
    }
}

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

impl State {
    /// Records that what lists show of a lock has changed.
    #[inline]
    pub(crate) fn lock_changed(&mut self, slot: Slot<Lock>) {
        if let Some(changed) = &mut self.changed {
            changed.locks.mark(slot.index());
        }
    }

    /// Records that the deadline of a session has changed.
    #[inline]
    pub(crate) fn session_changed(&mut self, slot: Slot<Session>) {
        if let Some(changed) = &mut self.changed {
            changed.sessions.mark(slot.index());
        }
    }
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
            let locks = Marks::new(state.locks.n_slots());
            let sessions = Marks::new(state.sessions.n_slots());
            Box::new(Changed { latest: id, before: after, is_fresh: true, locks, sessions })
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
    fn a_slot_is_taken_once_however_often_it_is_marked() {
        let mut marks = Marks::new(10);
        marks.mark(7);
        assert_eq!(marks.take(4), [0, 1, 2, 3]);
        marks.mark(2);
        marks.mark(2);
        // The scan has not reached the first of these, and does not go as far as the second.
        marks.mark(9);
        marks.mark(10);
        assert_eq!((marks.len(), marks.take(7)), (8, vec![4, 5, 6, 7, 8, 9, 2]));
        for at in [3, 3, 200, 10] {
            marks.mark(at);
        }
        assert_eq!(marks.take(2), [10, 3]);
        assert_eq!((marks.len(), marks.take(2), marks.len()), (1, vec![200], 0));
        marks.taken = vec![200, 3];
        marks.put_back();
        assert_eq!((marks.take(9), marks.len()), (vec![200, 3], 0));
    }

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
