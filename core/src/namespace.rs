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
}

/// Namespaces are few and are never forgotten, because their floors must not be.
pub(crate) struct Namespaces {
    /// The floor of every namespace nobody has named yet. It may have been named after a backup was taken.
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
        self.find(name).unwrap_or_else(|| {
            let namespace = Namespace { name: name.clone(), floor: self.floor };
            let slot = self.arena.insert(namespace);
            self.by_name.insert(name.clone(), slot);
            slot
        })
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
