//! A bounded cache of results by token hash. Recently used entries are kept.

use std::collections::HashMap;
use std::sync::RwLock;

use leasehold_base::sync::{read, write};

/// SHA-256 hash of a token. The token itself is never stored.
pub type Digest = [u8; 32];

/// A cache with at most `n_max` entries in two halves. When the newer half is full, it becomes the older one, and the
/// previous older half is dropped. A hit in the older half moves the entry to the newer one.
pub(super) struct Cache<V> {
    halves: RwLock<Halves<V>>,
    n_max: usize,
}

struct Halves<V> {
    newer: HashMap<Digest, V>,
    older: HashMap<Digest, V>,
}

impl<V: Clone> Cache<V> {
    pub(super) fn new(n_max: usize) -> Self {
        let halves = Halves { newer: HashMap::new(), older: HashMap::new() };
        Self { halves: RwLock::new(halves), n_max }
    }

    pub(super) fn get(&self, key: &Digest) -> Option<V> {
        let halves = read(&self.halves);
        if let Some(found) = halves.newer.get(key) {
            return Some(found.clone());
        }
        let found = halves.older.get(key).cloned()?;
        drop(halves);
        self.insert(*key, found.clone());
        Some(found)
    }

    pub(super) fn insert(&self, key: Digest, value: V) {
        let mut halves = write(&self.halves);
        if halves.newer.len() >= self.n_max.div_ceil(2) {
            halves.older = std::mem::take(&mut halves.newer);
        }
        halves.older.remove(&key);
        halves.newer.insert(key, value);
    }

    pub(super) fn clear(&self) {
        let mut halves = write(&self.halves);
        *halves = Halves { newer: HashMap::new(), older: HashMap::new() };
    }

    pub(super) fn len(&self) -> usize {
        let halves = read(&self.halves);
        halves.newer.len() + halves.older.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_so_many_are_kept_and_those_in_use_stay() {
        let cache = Cache::new(10);
        let key = |n: usize| [n as u8; 32];
        for n in 0..200 {
            cache.insert(key(n), n);
            assert_eq!(cache.get(&key(0)), Some(0), "asked for all the time");
            assert_eq!(cache.get(&key(n)), Some(n), "just put in");
            assert!(cache.len() <= 10, "{}", cache.len());
        }
        assert_eq!(cache.get(&key(100)), None);
        cache.clear();
        assert_eq!(cache.get(&key(0)), None);
    }
}
