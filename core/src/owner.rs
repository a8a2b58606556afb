//! The owners the machine knows, each name kept once.

use crate::arena::{Arena, Slot};
use crate::index::{Index, NameHash};
use crate::name::Owner;

/// An owner some lease, session or lapse refers to.
pub(crate) struct Known {
    pub(crate) owner: Owner,
    n_refs: u32,
    /// Leases waiting or active: these are limited.
    pub(crate) n_leases: u32,
    /// Sessions not yet over: these are limited too.
    pub(crate) n_sessions: u32,
}

pub(crate) struct Owners {
    arena: Arena<Known>,
    index: Index<Slot<Known>>,
    hash: NameHash,
}

impl Owners {
    pub(crate) fn new(hash: NameHash) -> Self {
        Self { arena: Arena::new(), index: Index::new(), hash }
    }

    pub(crate) fn find(&self, owner: &Owner) -> Option<Slot<Known>> {
        self.index.find(self.hash.of(owner), |slot| self.arena[*slot].owner == *owner)
    }

    /// One more reference to `owner`.
    pub(crate) fn retain(&mut self, owner: &Owner) -> Slot<Known> {
        let slot = self.find(owner).unwrap_or_else(|| self.add(owner.clone()));
        self.arena[slot].n_refs += 1;
        slot
    }

    /// One reference less; the last one forgets the owner.
    pub(crate) fn release(&mut self, slot: Slot<Known>) {
        self.arena[slot].n_refs -= 1;
        if self.arena[slot].n_refs == 0 {
            self.index.remove(self.hash.of(&self.arena[slot].owner), |other| *other == slot);
            self.arena.remove(slot);
        }
    }

    pub(crate) fn get(&self, slot: Slot<Known>) -> &Known {
        &self.arena[slot]
    }

    pub(crate) fn get_mut(&mut self, slot: Slot<Known>) -> &mut Known {
        &mut self.arena[slot]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot<Known>, &Known)> {
        self.arena.iter()
    }

    /// For [`crate::invariant`].
    pub(crate) fn n_refs(&self, slot: Slot<Known>) -> u32 {
        self.arena[slot].n_refs
    }

    fn add(&mut self, owner: Owner) -> Slot<Known> {
        let hash = self.hash.of(&owner);
        let slot = self.arena.insert(Known { owner, n_refs: 0, n_leases: 0, n_sessions: 0 });
        self.index.insert(hash, slot, |slot| self.hash.of(&self.arena[*slot].owner));
        slot
    }
}
