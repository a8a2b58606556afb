//! Hash indexes that map a name or number to a slot, in constant time.
//!
//! The table holds only slots. The keys stay in the arena, stored once. It consists of shards that grow one at a time,
//! so that no single command has to rehash a million entries. It cannot be iterated, because hash order is not
//! deterministic across processes.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

use crate::arena::Slot;
use crate::lease::Lease;

const SHARDS: usize = 256;

/// A sharded hash table of slots.
pub(crate) struct Index<E> {
    shards: Box<[HashTable<E>]>,
    /// The total over all shards. Cached, because it is read with every batch.
    len: usize,
}

/// A request id, leading to the lease that remembers it. A lease can have many request ids, so the entry stores its
/// hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filed {
    pub(crate) hash: u64,
    pub(crate) lease: Slot<Lease>,
}

impl<E: Copy> Index<E> {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| HashTable::new()).collect(), len: 0 }
    }

    /// Returns the entry under `hash` for which `is_it` holds.
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(&E) -> bool) -> Option<E> {
        self.shards[shard(hash)].find(hash, is_it).copied()
    }

    /// Adds `entry`, which must not be in the table yet. `rehash` returns the hash of an entry in the table.
    pub(crate) fn insert(&mut self, hash: u64, entry: E, rehash: impl Fn(&E) -> u64) {
        self.shards[shard(hash)].insert_unique(hash, entry, rehash);
        self.len += 1;
    }

    /// Removes the entry under `hash` for which `is_it` holds.
    pub(crate) fn remove(&mut self, hash: u64, is_it: impl FnMut(&E) -> bool) {
        let found = self.shards[shard(hash)].find_entry(hash, is_it);
        let Ok(entry) = found else { panic!("an indexed entry is missing from its index") };
        entry.remove();
        self.len -= 1;
    }

    /// Reserves space for `n` entries in total, so that inserting them moves no entries.
    pub(crate) fn reserve(&mut self, n: usize, rehash: impl Fn(&E) -> u64) {
        // The margin covers the slightly uneven distribution over the shards.
        let per_shard = n / SHARDS + n / SHARDS / 16;
        self.shards.iter_mut().for_each(|shard| shard.reserve(per_shard, &rehash));
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// Chooses the shard by hash bits that the table inside the shard does not use: neither the low bits (the bucket) nor
/// the top seven (the tag).
fn shard(hash: u64) -> usize {
    (hash >> 48) as usize % SHARDS
}

/// Hashes names that clients choose. Keyed, so that clients cannot choose names that collide.
#[derive(Clone, Copy)]
pub(crate) struct NameHash(u64, u64);

impl NameHash {
    pub(crate) fn new(seed: u128) -> Self {
        Self(seed as u64, (seed >> 64) as u64)
    }

    pub(crate) fn of(self, name: impl Hash) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.0, self.1);
        name.hash(&mut hasher);
        hasher.finish()
    }
}

/// Hashes the machine's own consecutive numbers, which clients cannot choose. 64 consecutive numbers are neighbors in
/// one shard, because leases created together are often renewed together.
pub(crate) fn number_hash(number: u64) -> u64 {
    let (row, place) = (number >> 6, number & 63);
    let bucket = ((row >> 8) << 6 | place) & 0xFFFF_FFFF_FFFF;
    let tag = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 57;
    tag << 57 | (row & 0xFF) << 48 | bucket
}
