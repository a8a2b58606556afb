//! The leases of the simulated etcd, and the keys attached to each.

use std::collections::{BTreeMap, BTreeSet};

use crate::time::{SECOND, Time};

#[derive(Clone, Debug, Default)]
pub(super) struct Leases {
    by_id: BTreeMap<i64, EtcdLease>,
    n_granted: i64,
}

#[derive(Clone, Debug)]
struct EtcdLease {
    ttl: i64,
    until: Time,
    keys: BTreeSet<Vec<u8>>,
}

impl Leases {
    pub(super) fn grant(&mut self, ttl: i64, until: Time) -> i64 {
        self.n_granted += 1;
        self.by_id.insert(self.n_granted, EtcdLease { ttl, until, keys: BTreeSet::new() });
        self.n_granted
    }

    pub(super) fn has(&self, id: i64) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(super) fn attach(&mut self, id: i64, key: &[u8]) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            lease.keys.insert(key.into());
        }
    }

    pub(super) fn detach(&mut self, id: i64, key: &[u8]) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            lease.keys.remove(key);
        }
    }

    pub(super) fn keep(&mut self, id: i64, now: Time) -> Option<i64> {
        let lease = self.by_id.get_mut(&id)?;
        lease.until = now + lease.ttl as Time * SECOND;
        Some(lease.ttl)
    }

    pub(super) fn renew_all(&mut self, now: Time) {
        for lease in self.by_id.values_mut() {
            lease.until = now + lease.ttl as Time * SECOND;
        }
    }

    /// Ends a lease. Returns its keys.
    pub(super) fn end(&mut self, id: i64) -> Option<BTreeSet<Vec<u8>>> {
        self.by_id.remove(&id).map(|lease| lease.keys)
    }

    pub(super) fn over(&self, now: Time) -> Vec<i64> {
        let over = self.by_id.iter().filter(|(_, lease)| lease.until <= now);
        over.map(|(id, _)| *id).collect()
    }

    pub(super) fn next_over(&self) -> Option<Time> {
        self.by_id.values().map(|lease| lease.until).min()
    }

    pub(super) fn ids(&self) -> Vec<i64> {
        self.by_id.keys().copied().collect()
    }
}
