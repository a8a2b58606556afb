//! Namespaces and the token floors that let their locks be forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::arena::{Arena, Slot};
use crate::token::Token;

/// A tenant.
pub(crate) struct Namespace {
    pub(crate) name: Arc<str>,
    /// At least the last token of every lock of this namespace that was forgotten.
    pub(crate) floor: Token,
    pub(crate) n_locks: usize,
}

/// Namespaces are few. One that is forgotten leaves its floor to all that are not known.
pub(crate) struct Namespaces {
    /// The floor of every namespace that is not known: it may have been named after a backup was taken, or forgotten.
    floor: Token,
    arena: Arena<Namespace>,
    by_name: BTreeMap<Arc<str>, Slot<Namespace>>,
}

impl Namespaces {
    pub(crate) const fn new() -> Self {
        Self { floor: Token::ZERO, arena: Arena::new(), by_name: BTreeMap::new() }
    }

    pub(crate) fn find(&self, name: &str) -> Option<Slot<Namespace>> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn find_or_add(&mut self, name: &Arc<str>) -> Slot<Namespace> {
        self.find(name).unwrap_or_else(|| self.add(name, self.floor))
    }

    pub(crate) fn add(&mut self, name: &Arc<str>, floor: Token) -> Slot<Namespace> {
        let slot = self.arena.insert(Namespace { name: name.clone(), floor, n_locks: 0 });
        self.by_name.insert(name.clone(), slot);
        slot
    }

    /// An empty one goes; no token of it will be handed out again if somebody names it anew.
    pub(crate) fn forget(&mut self, slot: Slot<Namespace>) {
        let Namespace { name, floor, .. } = self.arena.remove(slot);
        self.by_name.remove(&name);
        self.floor = self.floor.max(floor);
    }

    /// There is one more lock in it, or one less.
    pub(crate) fn count_lock(&mut self, slot: Slot<Namespace>, is_new: bool) {
        let n_locks = &mut self.arena[slot].n_locks;
        *n_locks = if is_new { *n_locks + 1 } else { *n_locks - 1 };
    }

    /// No lock is left in any of them.
    pub(crate) fn clear(&mut self) {
        for slot in self.slots().collect::<Vec<_>>() {
            self.arena[slot].n_locks = 0;
        }
    }

    pub(crate) fn get(&self, slot: Slot<Namespace>) -> &Namespace {
        &self.arena[slot]
    }

    /// The floor of a namespace, whether or not it is known.
    pub(crate) fn floor_of(&self, name: &str) -> Token {
        self.find(name).map_or(self.floor, |slot| self.arena[slot].floor)
    }

    pub(crate) fn floor(&self) -> Token {
        self.floor
    }

    pub(crate) fn set_floor(&mut self, floor: Token) {
        self.floor = floor;
    }

    pub(crate) fn raise_floor(&mut self, slot: Slot<Namespace>, floor: Token) {
        let namespace = &mut self.arena[slot];
        namespace.floor = namespace.floor.max(floor);
    }

    pub(crate) fn len(&self) -> usize {
        self.arena.len()
    }

    /// In the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Namespace> {
        self.by_name.values().map(|slot| &self.arena[*slot])
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot<Namespace>> {
        self.by_name.values().copied()
    }
}
