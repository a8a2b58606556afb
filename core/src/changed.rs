//! Which locks and sessions have changed since a reader last collected them.
//!
//! A reader outside the machine keeps a copy of what lists show of every lock. It first collects every lock, a few at a
//! time, and from then on only those that have changed. Nothing is recorded before the first collection, and a lock
//! that changes many times between two collections is recorded once. A mark takes at most 33 bits.
//!
//! Marks are collected in the order in which they were made. So a reader that collects as many as there are has seen
//! everything that had happened until then, whatever is marked meanwhile.

use std::collections::VecDeque;

const WORD_BITS: usize = u64::BITS as usize;

/// The marks for one reader.
pub(crate) struct Changed {
    /// The latest collection, of which it is not known whether the reader got it.
    latest: u64,
    /// The collection before that, which the reader got.
    before: u64,
    /// Whether the latest collection is the first.
    pub(crate) is_fresh: bool,
    pub(crate) locks: Marks,
    pub(crate) sessions: Marks,
}

impl Changed {
    /// Begins the first collection, `id`, of so many slots of locks and of sessions.
    pub(crate) fn new(after: u64, id: u64, n_locks: usize, n_sessions: usize) -> Self {
        let (locks, sessions) = (Marks::new(n_locks), Marks::new(n_sessions));
        Self { latest: id, before: after, is_fresh: true, locks, sessions }
    }

    /// Begins or goes on with the collection `id`. Returns whether it goes on from the collection `after`.
    pub(crate) fn go_on(&mut self, after: u64, id: u64) -> bool {
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
pub(crate) struct Marks {
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

    pub(crate) fn mark(&mut self, at: usize) {
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
    pub(crate) fn take(&mut self, n_max: usize) -> Vec<usize> {
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
    pub(crate) fn len(&self) -> usize {
        self.scan_until - self.scanned + self.marked.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
