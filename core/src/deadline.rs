//! Deadlines in order: a four-way heap that records the position of each entry.
//!
//! Adding the latest deadline, which is the usual case, moves no other entry. Removing or moving an entry takes O(log
//! n), so a released lease leaves no entry behind, however far away its deadline was.

use crate::arena::Slot;
use crate::time::Timestamp;

const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;

/// The deadlines of the objects in one arena, at most one each.
pub(crate) struct Deadlines<T> {
    heap: Vec<DeadlineEntry<T>>,
    /// The position in `heap` of each slot's entry, by slot index.
    positions: Vec<u32>,
}

/// Packed, because a server can hold a million of these.
#[repr(C, packed(4))]
struct DeadlineEntry<T> {
    at: Timestamp,
    slot: Slot<T>,
}

impl<T> Deadlines<T> {
    pub(crate) const fn new() -> Self {
        Self { heap: Vec::new(), positions: Vec::new() }
    }

    /// Returns the earliest deadline.
    pub(crate) fn first(&self) -> Option<(Timestamp, Slot<T>)> {
        self.heap.first().map(|entry| (entry.at, entry.slot))
    }

    pub(crate) fn get(&self, slot: Slot<T>) -> Option<Timestamp> {
        self.position(slot).map(|position| self.heap[position].at)
    }

    /// Sets or moves the deadline of `slot`. [`Timestamp::NEVER`] removes it.
    pub(crate) fn set(&mut self, slot: Slot<T>, at: Timestamp) {
        if at == Timestamp::NEVER {
            return self.remove(slot);
        }
        if let Some(position) = self.position(slot) {
            self.heap[position].at = at;
            return self.restore_order(position);
        }
        if self.positions.len() <= slot.index() {
            self.positions.resize(slot.index() + 1, ABSENT);
        }
        self.heap.push(DeadlineEntry { at, slot });
        self.rise(self.heap.len() - 1);
    }

    pub(crate) fn remove(&mut self, slot: Slot<T>) {
        let Some(position) = self.position(slot) else { return };
        self.heap.swap_remove(position);
        self.positions[slot.index()] = ABSENT;
        if position < self.heap.len() {
            self.restore_order(position);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    fn position(&self, slot: Slot<T>) -> Option<usize> {
        let position = *self.positions.get(slot.index())?;
        (position != ABSENT).then_some(position as usize)
    }

    fn restore_order(&mut self, position: usize) {
        let position = self.rise(position);
        self.sink(position);
    }

    fn rise(&mut self, mut position: usize) -> usize {
        while position > 0 {
            let parent = (position - 1) / ARITY;
            if !self.is_before(position, parent) {
                break;
            }
            self.swap(position, parent);
            position = parent;
        }
        self.note(position);
        position
    }

    fn sink(&mut self, mut position: usize) {
        loop {
            let children =
                ARITY * position + 1..(ARITY * position + ARITY + 1).min(self.heap.len());
            let Some(least) = children.reduce(|a, b| if self.is_before(b, a) { b } else { a })
            else {
                break;
            };
            if !self.is_before(least, position) {
                break;
            }
            self.swap(position, least);
            position = least;
        }
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.heap[a], &self.heap[b]);
        (a.at, a.slot.index()) < (b.at, b.slot.index())
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.note(a);
        self.note(b);
    }

    fn note(&mut self, position: usize) {
        let slot = self.heap[position].slot;
        self.positions[slot.index()] = position as u32;
    }

    /// Returns whether the heap is ordered and every position is correct. Used by [`crate::invariant`].
    pub(crate) fn is_consistent(&self) -> bool {
        (0..self.heap.len()).all(|i| {
            let slot = self.heap[i].slot;
            self.position(slot) == Some(i) && (i == 0 || !self.is_before(i, (i - 1) / ARITY))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_out_in_order_whatever_was_moved_or_removed() {
        let mut deadlines = Deadlines::<()>::new();
        let at = |n: u64| Timestamp::from_nanos(n * 7919 % 1000);
        for n in 0..500 {
            deadlines.set(Slot::at(n as usize), at(n));
        }
        for n in (0..500).step_by(3) {
            deadlines.set(Slot::at(n as usize), at(n + 13));
        }
        for n in (0..500).step_by(5) {
            deadlines.remove(Slot::at(n as usize));
            assert!(deadlines.is_consistent());
        }
        let mut last = Timestamp::ZERO;
        let mut n_left = 0;
        while let Some((at, slot)) = deadlines.first() {
            assert!(at >= last);
            last = at;
            deadlines.set(slot, Timestamp::NEVER);
            n_left += 1;
        }
        assert_eq!(n_left, 400);
    }

    #[test]
    fn an_entry_is_twelve_bytes() {
        assert_eq!(size_of::<DeadlineEntry<()>>(), 12);
    }
}
