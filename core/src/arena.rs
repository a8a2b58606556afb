//! The storage of locks, leases and sessions: numbered slots that are reused.
//!
//! An arena grows in chunks, so that the millionth lock costs one small allocation and never a copy of all others.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

const CHUNK_LEN: usize = 1024;

/// Numbered slots that hold values of type `T`.
pub(crate) struct Arena<T> {
    chunks: Vec<Vec<Entry<T>>>,
    vacant: Option<Slot<T>>,
    len: usize,
}

/// The index of a slot in an [`Arena`]. It takes four bytes, even as an `Option`. It is typed, so that a lock's slot
/// cannot be used for a lease.
pub(crate) struct Slot<T>(NonZeroU32, PhantomData<fn() -> T>);

enum Entry<T> {
    Vacant { next: Option<Slot<T>> },
    Occupied(T),
}

impl<T> Arena<T> {
    pub(crate) const fn new() -> Self {
        Self { chunks: Vec::new(), vacant: None, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, value: T) -> Slot<T> {
        self.len += 1;
        if let Some(slot) = self.vacant {
            let entry = self.entry_mut(slot);
            let Entry::Vacant { next } = *entry else {
                panic!("the free list led to an occupied slot")
            };
            *entry = Entry::Occupied(value);
            self.vacant = next;
            return slot;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_LEN) {
            self.chunks.push(Vec::with_capacity(CHUNK_LEN));
        }
        let full = (self.chunks.len() - 1) * CHUNK_LEN;
        let Some(chunk) = self.chunks.last_mut() else { panic!("a chunk was just added") };
        chunk.push(Entry::Occupied(value));
        Slot::at(full + chunk.len() - 1)
    }

    pub(crate) fn remove(&mut self, slot: Slot<T>) -> T {
        let vacant = Entry::Vacant { next: self.vacant };
        let Entry::Occupied(value) = std::mem::replace(self.entry_mut(slot), vacant) else {
            panic!("a slot was removed twice")
        };
        self.vacant = Some(slot);
        self.len -= 1;
        value
    }

    /// Returns the value in the slot with this index, if there is one.
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        match self.chunks.get(index / CHUNK_LEN)?.get(index % CHUNK_LEN)? {
            Entry::Occupied(value) => Some(value),
            Entry::Vacant { .. } => None,
        }
    }

    /// Returns the number of slots, occupied or not.
    pub(crate) fn n_slots(&self) -> usize {
        let full = self.chunks.len().saturating_sub(1) * CHUNK_LEN;
        full + self.chunks.last().map_or(0, Vec::len)
    }

    /// Returns the occupied slots in order, from index `from` on.
    pub(crate) fn iter_from(&self, from: usize) -> impl Iterator<Item = (Slot<T>, &T)> {
        let (first, skip) = (from / CHUNK_LEN, from % CHUNK_LEN);
        let chunks = self.chunks.iter().enumerate().skip(first);
        let entries = chunks.flat_map(|(c, chunk)| {
            chunk.iter().enumerate().map(move |(i, entry)| (c * CHUNK_LEN + i, entry))
        });
        entries.skip(skip).filter_map(|(at, entry)| match entry {
            Entry::Occupied(value) => Some((Slot::at(at), value)),
            Entry::Vacant { .. } => None,
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot<T>, &T)> {
        self.iter_from(0)
    }

    fn entry_mut(&mut self, slot: Slot<T>) -> &mut Entry<T> {
        &mut self.chunks[slot.index() / CHUNK_LEN][slot.index() % CHUNK_LEN]
    }
}

impl<T> Index<Slot<T>> for Arena<T> {
    type Output = T;

    fn index(&self, slot: Slot<T>) -> &T {
        match &self.chunks[slot.index() / CHUNK_LEN][slot.index() % CHUNK_LEN] {
            Entry::Occupied(value) => value,
            Entry::Vacant { .. } => panic!("a slot outlived what was in it"),
        }
    }
}

impl<T> IndexMut<Slot<T>> for Arena<T> {
    fn index_mut(&mut self, slot: Slot<T>) -> &mut T {
        match self.entry_mut(slot) {
            Entry::Occupied(value) => value,
            Entry::Vacant { .. } => panic!("a slot outlived what was in it"),
        }
    }
}

impl<T> Slot<T> {
    /// Returns the slot with this index.
    pub(crate) fn at(index: usize) -> Self {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("an arena holds fewer than 2^32 entries"), PhantomData)
    }

    pub(crate) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slot<T> {}

impl<T> PartialEq for Slot<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Slot<T> {}

impl<T> PartialOrd for Slot<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Slot<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.index())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused_and_never_move() {
        let mut arena = Arena::new();
        let slots: Vec<_> = (0..3000).map(|n| arena.insert(n)).collect();
        assert_eq!(arena.remove(slots[1500]), 1500);
        assert_eq!(arena.insert(9), slots[1500]);
        assert_eq!((arena[slots[0]], arena[slots[1500]], arena[slots[2999]]), (0, 9, 2999));
        assert_eq!(arena.iter_from(2998).map(|(_, n)| *n).collect::<Vec<_>>(), [2998, 2999]);
        assert_eq!(arena.len(), 3000);
        arena.remove(slots[1000]);
        let among: Vec<_> = arena.iter_from(999).map(|(_, n)| *n).take(2).collect();
        assert_eq!((among.as_slice(), arena.n_slots()), ([999, 1001].as_slice(), 3000));
        assert_eq!((arena.get(999), arena.get(1000), arena.get(3000)), (Some(&999), None, None));
    }

    #[test]
    fn an_optional_slot_is_four_bytes() {
        assert_eq!(size_of::<Option<Slot<String>>>(), 4);
    }
}
