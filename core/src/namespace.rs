//! Namespaces and the token floors that let their locks be forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::account::Account;
use crate::arena::{Arena, Slot};
use crate::catalog::Catalog;
use crate::mutant;
use crate::token::Token;

/// What a namespace takes up beside its name, about.
const NAMESPACE_BYTES: usize = 128;

/// A tenant.
pub(crate) struct Namespace {
    pub(crate) name: Arc<str>,
    /// At least the last token of every lock of this namespace that was forgotten.
    pub(crate) floor: Token,
    pub(crate) n_locks: usize,
    /// Of these, the ones nobody uses.
    pub(crate) n_idle: usize,
    /// Leases waiting or active on its locks: these can be limited.
    pub(crate) n_leases: u32,
    /// Whom it is counted with: whoever had the first lease in it that is known of.
    pub(crate) account: Option<Slot<Account>>,
    /// Its locks, in order.
    pub(crate) catalog: Catalog,
}

impl Namespace {
    /// Nobody has to do with any of its locks.
    pub(crate) fn is_quiet(&self) -> bool {
        self.n_idle == self.n_locks
    }
}

/// Namespaces are few. One that is forgotten leaves its floor to all that are not known.
pub(crate) struct Namespaces {
    /// The floor of every namespace that is not known: it may have been named after a backup was taken, or forgotten.
    floor: Token,
    arena: Arena<Namespace>,
    by_name: BTreeMap<Arc<str>, Slot<Namespace>>,
    /// Those without a lock, to be forgotten.
    empty: BTreeSet<Slot<Namespace>>,
    /// What all of them take up.
    n_bytes: usize,
}

impl Namespaces {
    pub(crate) const fn new() -> Self {
        Self {
            floor: Token::ZERO,
            arena: Arena::new(),
            by_name: BTreeMap::new(),
            empty: BTreeSet::new(),
            n_bytes: 0,
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<Slot<Namespace>> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn find_or_add(&mut self, name: &Arc<str>) -> Slot<Namespace> {
        self.find(name).unwrap_or_else(|| self.add(name, self.floor))
    }

    pub(crate) fn add(&mut self, name: &Arc<str>, floor: Token) -> Slot<Namespace> {
        self.n_bytes += bytes(name);
        let name = name.clone();
        let (name_again, catalog) = (name.clone(), Catalog::default());
        let namespace = Namespace {
            name: name_again,
            floor,
            n_locks: 0,
            n_idle: 0,
            n_leases: 0,
            account: None,
            catalog,
        };
        let slot = self.arena.insert(namespace);
        self.by_name.insert(name, slot);
        self.empty.insert(slot);
        slot
    }

    /// An empty one goes; no token of it will be handed out again if somebody names it anew.
    pub(crate) fn forget(&mut self, slot: Slot<Namespace>) {
        let Namespace { name, floor, .. } = self.arena.remove(slot);
        self.by_name.remove(&name);
        self.empty.remove(&slot);
        self.n_bytes -= bytes(&name);
        if !mutant!(ForgetWithoutRaising) {
            self.floor = self.floor.max(floor);
        }
    }

    /// There is one more lock in it, or one less.
    pub(crate) fn count_lock(&mut self, slot: Slot<Namespace>, is_new: bool) {
        let n_locks = &mut self.arena[slot].n_locks;
        if is_new && *n_locks == 0 {
            self.empty.remove(&slot);
        }
        *n_locks = if is_new { *n_locks + 1 } else { *n_locks - 1 };
        if *n_locks == 0 {
            self.empty.insert(slot);
        }
    }

    /// One of its locks is used no more, or is used again.
    pub(crate) fn count_idle(&mut self, slot: Slot<Namespace>, is_idle: bool) {
        let n_idle = &mut self.arena[slot].n_idle;
        *n_idle = if is_idle { *n_idle + 1 } else { *n_idle - 1 };
    }

    /// One lease more on one of its locks, or one less.
    pub(crate) fn count_lease(&mut self, slot: Slot<Namespace>, is_new: bool) {
        let n_leases = &mut self.arena[slot].n_leases;
        *n_leases = if is_new { *n_leases + 1 } else { *n_leases - 1 };
    }

    pub(crate) fn catalog(&mut self, slot: Slot<Namespace>) -> &mut Catalog {
        &mut self.arena[slot].catalog
    }

    pub(crate) fn set_account(&mut self, slot: Slot<Namespace>, account: Slot<Account>) {
        self.arena[slot].account = Some(account);
    }

    /// Those without a lock.
    pub(crate) fn empty(&self) -> impl Iterator<Item = Slot<Namespace>> + '_ {
        self.empty.iter().copied()
    }

    /// What all of them take up.
    pub(crate) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// No lock is left in any of them.
    pub(crate) fn clear(&mut self) {
        for slot in self.slots().collect::<Vec<_>>() {
            let namespace = &mut self.arena[slot];
            (namespace.n_locks, namespace.n_idle, namespace.account) = (0, 0, None);
            namespace.n_leases = 0;
            namespace.catalog.clear();
            self.empty.insert(slot);
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

/// What a namespace takes up.
pub(crate) fn bytes(name: &str) -> usize {
    NAMESPACE_BYTES + name.len()
}
