//! The copy itself: the locks of each namespace in the order of their names, in blocks, with counts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use leasehold_core::mutant;

use super::block::{BLOCK_MAX, Block};
use super::collect::{Changes, Collect, LockSummary, OwnerText};
use super::counts::Split;
use super::owners::Owners;
use super::row::{NONE, Row};

/// All locks, as lists show them.
#[derive(Default)]
pub(crate) struct Model {
    /// The last collection that arrived.
    after: u64,
    latest_id: u64,
    pub(super) namespaces: BTreeMap<Arc<str>, Namespace>,
    blocks: Vec<Block>,
    vacant: Vec<u32>,
    /// The block of each lock, by the lock's slot.
    by_slot: Vec<u32>,
    pub(super) owners: Owners,
    /// The owners of locks that have more than one, by the lock's slot.
    pub(super) crowds: HashMap<u32, Box<[u32]>>,
    /// When each session ends, by its slot.
    sessions: Vec<u64>,
    n_locks: usize,
}

/// The locks of one namespace.
#[derive(Default)]
pub(super) struct Namespace {
    /// The numbers of its blocks, in the order of names. None of them is empty.
    pub(super) blocks: Vec<u32>,
    pub(super) counts: Split,
}

impl Model {
    /// Returns what to ask the writer next.
    pub(crate) fn next_collection(&mut self) -> Collect {
        self.latest_id += 1;
        Collect { after: self.after, id: self.latest_id }
    }

    /// Forgets all locks. The numbers of collections go on.
    pub(crate) fn clear(&mut self) {
        *self = Self { latest_id: self.latest_id, ..Self::default() };
    }

    /// Takes over what the writer collected.
    pub(crate) fn apply(&mut self, changes: Changes) {
        if changes.is_fresh {
            self.clear();
        }
        self.after = changes.id;
        for (at, ends) in changes.sessions {
            let at = at as usize;
            if self.sessions.len() <= at {
                self.sessions.resize(at + 1, u64::MAX);
            }
            self.sessions[at] = ends;
        }
        let (mut text, mut owners) = (&*changes.text, &*changes.owners);
        for (slot, found) in changes.locks {
            self.crowds.remove(&slot);
            let Some(found) = found else {
                self.remove(slot);
                continue;
            };
            let (name, rest) = text.split_at(found.name_len as usize);
            let (own, others) = owners.split_at(found.n_owners as usize);
            (text, owners) = (rest, others);
            for OwnerText { number, shown_len, principal_len } in own {
                let (shown, rest) = text.split_at(*shown_len as usize);
                let (principal, rest) = rest.split_at(*principal_len as usize);
                self.owners.set(*number, shown, principal);
                text = rest;
            }
            let numbers: Vec<_> = own.iter().map(|own| own.number).collect();
            let row = Row { owner: numbers.first().copied().unwrap_or(NONE), ..found.row };
            let row = Row { has_more_owners: numbers.len() > 1, ..row };
            if row.has_more_owners {
                self.crowds.insert(slot, numbers.into());
            }
            self.set(slot, name, row, &found);
        }
    }

    fn set(&mut self, slot: u32, name: &str, row: Row, found: &LockSummary) {
        if let Some((number, at)) = self.find(slot) {
            let block = &mut self.blocks[number as usize];
            if block.namespace == found.namespace && block.names.get(at) == name {
                let was = std::mem::replace(&mut block.rows[at], row);
                block.counts.add(&row);
                if !mutant!(FormerStateCounted) {
                    block.counts.subtract(&was);
                }
                if let Some(namespace) = self.namespaces.get_mut(&found.namespace) {
                    namespace.counts.add(&row);
                    namespace.counts.subtract(&was);
                }
                return;
            }
            // The slot has become that of another lock.
            self.remove(slot);
        }
        self.insert(slot, name, row, &found.namespace);
    }

    fn find(&self, slot: u32) -> Option<(u32, usize)> {
        let number = *self.by_slot.get(slot as usize).filter(|number| **number != NONE)?;
        Some((number, self.blocks[number as usize].place_of_slot(slot)?))
    }

    fn insert(&mut self, slot: u32, name: &str, row: Row, namespace: &Arc<str>) {
        let Self { namespaces, blocks, .. } = self;
        let of = namespaces.entry(namespace.clone()).or_default();
        of.counts.add(&row);
        let last = of.blocks.len().saturating_sub(1);
        let is_last = of.blocks.last().is_none_or(|last| blocks[*last as usize].first() <= name);
        let n = match is_last {
            true => last,
            // The last block that begins with this name or an earlier one, or else the first block.
            false => {
                let begins = |number: &u32| blocks[*number as usize].first() <= name;
                of.blocks.partition_point(begins).saturating_sub(1)
            }
        };
        let number = match of.blocks.get(n) {
            Some(number) => *number,
            None => self.add_block(namespace, n, Block::new(namespace.clone())),
        };
        let block = &mut self.blocks[number as usize];
        let at = block.place_of(name);
        let is_at_end = is_last && at == block.len();
        block.insert(at, name, slot, row);
        self.n_locks += 1;
        self.note(slot, number);
        if self.blocks[number as usize].len() > BLOCK_MAX {
            // If names arrive in order, this leaves full blocks behind.
            let half = if is_at_end { BLOCK_MAX } else { BLOCK_MAX / 2 };
            let upper = self.blocks[number as usize].split_off(half);
            let slots = upper.slots.clone();
            let upper = self.add_block(namespace, n + 1, upper);
            for slot in slots {
                self.note(slot, upper);
            }
        }
    }

    /// Adds a block at a place among those of its namespace.
    fn add_block(&mut self, namespace: &Arc<str>, n: usize, block: Block) -> u32 {
        let number = match self.vacant.pop() {
            Some(number) => {
                self.blocks[number as usize] = block;
                number
            }
            None => {
                self.blocks.push(block);
                (self.blocks.len() - 1) as u32
            }
        };
        self.namespaces.entry(namespace.clone()).or_default().blocks.insert(n, number);
        number
    }

    fn note(&mut self, slot: u32, number: u32) {
        let slot = slot as usize;
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, NONE);
        }
        self.by_slot[slot] = number;
    }

    fn remove(&mut self, slot: u32) {
        let Some((number, at)) = self.find(slot) else { return };
        let block = &mut self.blocks[number as usize];
        let row = block.remove(at);
        let (namespace, is_empty) = (block.namespace.clone(), block.len() == 0);
        self.n_locks -= 1;
        self.by_slot[slot as usize] = NONE;
        let Some(of) = self.namespaces.get_mut(&namespace) else { return };
        of.counts.subtract(&row);
        if is_empty {
            of.blocks.retain(|own| *own != number);
            if of.blocks.is_empty() {
                self.namespaces.remove(&namespace);
            }
            self.blocks[number as usize] = Block::new(namespace);
            self.vacant.push(number);
        }
    }

    pub(super) fn block(&self, number: u32) -> &Block {
        &self.blocks[number as usize]
    }

    /// Returns when a lock's lease, the session of that lease or its grace period ends.
    pub(super) fn ends(&self, row: &Row) -> u64 {
        let of_session = self.sessions.get(row.session as usize);
        of_session.map_or(row.ends, |session| row.ends.min(*session))
    }

    pub(crate) fn n_locks(&self) -> usize {
        self.n_locks
    }

    /// Returns the bytes of memory used, without those of the maps.
    pub(crate) fn n_bytes(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(Block::n_bytes).sum();
        let lists: usize = self.namespaces.values().map(|of| of.blocks.capacity() * 4).sum();
        let by_slot = self.by_slot.capacity() * 4 + self.sessions.capacity() * 8;
        blocks + lists + by_slot + self.owners.n_bytes()
    }
}
