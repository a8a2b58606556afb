//! Locks of one namespace with neighbouring names.

use std::sync::Arc;

use super::counts::Split;
use super::row::Row;
use super::texts::Texts;

/// The maximum number of locks in a block.
pub(super) const BLOCK_MAX: usize = 128;

/// Locks in the order of their names.
pub(super) struct Block {
    pub(super) namespace: Arc<str>,
    pub(super) names: Texts,
    pub(super) slots: Vec<u32>,
    pub(super) rows: Vec<Row>,
    pub(super) counts: Split,
}

impl Block {
    pub(super) fn new(namespace: Arc<str>) -> Self {
        let (names, slots, rows, counts) = Default::default();
        Self { namespace, names, slots, rows, counts }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn first(&self) -> &str {
        self.names.get(0)
    }

    pub(super) fn last(&self) -> &str {
        self.names.get(self.len() - 1)
    }

    /// Returns the place of a name, or where it would be.
    pub(super) fn place_of(&self, name: &str) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.names.get(middle) < name { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Returns the place of a slot, which must be in the block.
    pub(super) fn place_of_slot(&self, slot: u32) -> Option<usize> {
        self.slots.iter().position(|own| *own == slot)
    }

    pub(super) fn insert(&mut self, at: usize, name: &str, slot: u32, row: Row) {
        self.names.insert(at, name);
        self.slots.insert(at, slot);
        self.rows.insert(at, row);
        self.counts.add(&row);
    }

    pub(super) fn remove(&mut self, at: usize) -> Row {
        self.names.remove(at);
        self.slots.remove(at);
        let row = self.rows.remove(at);
        self.counts.subtract(&row);
        row
    }

    /// Moves the locks from `at` on to a new block.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let (names, slots) = (self.names.split_off(at), self.slots.split_off(at));
        let rows = self.rows.split_off(at);
        self.slots.shrink_to_fit();
        self.rows.shrink_to_fit();
        let mut counts = Split::default();
        for row in &rows {
            counts.add(row);
            self.counts.subtract(row);
        }
        Self { namespace: self.namespace.clone(), names, slots, rows, counts }
    }

    /// Returns the bytes of memory used.
    pub(super) fn n_bytes(&self) -> usize {
        let slots = self.slots.capacity() * size_of::<u32>();
        size_of::<Self>() + self.names.n_bytes() + slots + self.rows.capacity() * size_of::<Row>()
    }
}
