//! From a name or number to a slot, in constant time.
//!
//! The table holds slots only, not keys: those stay in the arena, once. It is split into shards that grow one at a
//! time, so that no single command pays for rehashing a million entries. There is no way to iterate it:
//! hash order is not an order.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

use crate::arena::Slot;
use crate::lease::Lease;

const SHARDS: usize = 256;

/// A hash table whose entries lead to the things they stand for.
pub(crate) struct Index<E> {
    shards: Box<[HashTable<E>]>,
    /// Of all shards: adding them up is too much for something that is asked with every batch.
    len: usize,
}

/// A request id leads to the lease it is remembered with. One lease has many, so the entry must know its hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filed {
    pub(crate) hash: u64,
    pub(crate) lease: Slot<Lease>,
}

impl<E: Copy> Index<E> {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| HashTable::new()).collect(), len: 0 }
    }

    /// The entry under `hash` for which `is_it` holds.
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(&E) -> bool) -> Option<E> {
        self.shards[shard(hash)].find(hash, is_it).copied()
    }

    /// Adds `entry`, which must not be there yet. `rehash` gives the hash of one already in the table.
    pub(crate) fn insert(&mut self, hash: u64, entry: E, rehash: impl Fn(&E) -> u64) {
        self.shards[shard(hash)].insert_unique(hash, entry, rehash);
        self.len += 1;
    }

    /// Takes out the entry under `hash` for which `is_it` holds.
    pub(crate) fn remove(&mut self, hash: u64, is_it: impl FnMut(&E) -> bool) {
        let found = self.shards[shard(hash)].find_entry(hash, is_it);
        let Ok(entry) = found else { panic!("an indexed entry is missing from its index") };
        entry.remove();
        self.len -= 1;
    }

    /// Makes room for `n` entries in all, so that none of them has to be moved later.
    pub(crate) fn reserve(&mut self, n: usize, rehash: impl Fn(&E) -> u64) {
        // Names spread unevenly over the shards, by a little.
        let per_shard = n / SHARDS + n / SHARDS / 16;
        self.shards.iter_mut().for_each(|shard| shard.reserve(per_shard, &rehash));
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// Neither the low bits (the bucket) nor the top seven (the tag) of the table inside the shard.
fn shard(hash: u64) -> usize {
    (hash >> 48) as usize % SHARDS
}

/// Hashes what clients choose. Keyed, so that nobody can choose names that collide.
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

/// Hashes the machine's own consecutive numbers, which nobody can choose. Sixty-four in a row are neighbours
/// in one shard, because leases made together are renewed together.
pub(crate) fn number_hash(number: u64) -> u64 {
    let (row, place) = (number >> 6, number & 63);
    let bucket = ((row >> 8) << 6 | place) & 0xFFFF_FFFF_FFFF;
    let tag = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 57;
    tag << 57 | (row & 0xFF) << 48 | bucket
}
