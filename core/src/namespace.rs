//! Namespaces, and the token floors that allow their locks to be forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::account::Account;
use crate::arena::{Arena, Slot};
use crate::catalog::Catalog;
use crate::mutant;
use crate::token::Token;

/// The approximate size of a namespace without its name.
const NAMESPACE_BYTES: usize = 128;

/// A tenant.
pub(crate) struct Namespace {
    pub(crate) name: Arc<str>,
    /// At least the last token of every forgotten lock of this namespace.
    pub(crate) floor: Token,
    pub(crate) n_locks: usize,
    /// The number of its locks that are unused.
    pub(crate) n_idle: usize,
    /// The number of waiting and active leases on its locks, which a quota can limit.
    pub(crate) n_leases: u32,
    /// The account that counts the namespace: that of the first known lease in it.
    pub(crate) account: Option<Slot<Account>>,
    /// Its locks, ordered by name.
    pub(crate) catalog: Catalog,
}

impl Namespace {
    /// Returns whether all of its locks are unused.
    pub(crate) fn is_quiet(&self) -> bool {
        self.n_idle == self.n_locks
    }
}

/// All known namespaces. When one is forgotten, the floor of unknown namespaces is raised to its floor.
pub(crate) struct Namespaces {
    /// The token floor of every unknown namespace. Such a namespace might have been created after a backup was taken,
    /// or forgotten.
    floor: Token,
    arena: Arena<Namespace>,
    by_name: BTreeMap<Arc<str>, Slot<Namespace>>,
    /// The namespaces without a lock, which the sweep forgets.
    empty: BTreeSet<Slot<Namespace>>,
    /// The bytes of all of them.
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

    /// Forgets an empty namespace. If it is named again later, the raised floor keeps its old tokens from being issued
    /// again.
    pub(crate) fn forget(&mut self, slot: Slot<Namespace>) {
        let Namespace { name, floor, .. } = self.arena.remove(slot);
        self.by_name.remove(&name);
        self.empty.remove(&slot);
        self.n_bytes -= bytes(&name);
        if !mutant!(ForgetWithoutRaising) {
            self.floor = self.floor.max(floor);
        }
    }

    /// Counts one more lock in a namespace, or one less.
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

    /// Counts one more idle lock in a namespace, or one less.
    pub(crate) fn count_idle(&mut self, slot: Slot<Namespace>, is_idle: bool) {
        let n_idle = &mut self.arena[slot].n_idle;
        *n_idle = if is_idle { *n_idle + 1 } else { *n_idle - 1 };
    }

    /// Counts one more lease on the locks of a namespace, or one less.
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

    /// Returns the namespaces without a lock.
    pub(crate) fn empty(&self) -> impl Iterator<Item = Slot<Namespace>> + '_ {
        self.empty.iter().copied()
    }

    /// Returns the bytes of all namespaces.
    pub(crate) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Records that all locks are gone from all namespaces.
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

    /// Returns the token floor of a namespace, whether or not it is known.
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

    /// Returns all namespaces, ordered by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Namespace> {
        self.by_name.values().map(|slot| &self.arena[*slot])
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot<Namespace>> {
        self.by_name.values().copied()
    }
}

/// Returns the bytes of a namespace.
pub(crate) fn bytes(name: &str) -> usize {
    NAMESPACE_BYTES + name.len()
}
