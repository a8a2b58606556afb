//! A shared store in the memory of one process, for tests: the servers of a cluster in that process share it.
//!
//! It provides what the traits of [`Backend`] require and nothing else, so a test that passes on it and on etcd depends
//! on nothing that only etcd has. Its leases end by real time, as those of etcd do.

mod journal;
mod leadership;
mod lifecycle;
mod servers;
mod snapshots;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use leasehold_base::pace;
use leasehold_base::sync::{lock, whole};

use crate::shared::{
    Backend, BackendFailure, Entry, HeadEntry, LeaderEntry, Lease, NodeEntry, Requests, Tenure,
    Versioned,
};

/// A store in memory. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryShared {
    inner: Arc<MemoryCell>,
}

#[derive(Default)]
struct MemoryCell {
    state: Mutex<MemoryContents>,
    changed: Condvar,
}

/// The contents of a store at one moment, to which it can be rolled back.
#[derive(Clone)]
pub struct StoreCopy(MemoryContents);

/// A value that is deleted when its lease ends.
#[derive(Clone)]
struct Leased<T> {
    value: T,
    lease: Option<i64>,
}

#[derive(Clone, Default)]
struct MemoryContents {
    /// Grows with each write.
    version: i64,
    n_leases: i64,
    /// The TTL of each lease, and when the lease ends.
    leases: BTreeMap<i64, (Duration, Duration)>,
    id: Option<Vec<u8>>,
    head: Option<HeadEntry>,
    leader: Option<Leased<(i64, Vec<u8>)>>,
    records: BTreeMap<u64, Vec<u8>>,
    manifest: Option<Versioned>,
    chunks: BTreeMap<(String, u64), Vec<u8>>,
    nodes: BTreeMap<String, Leased<Vec<u8>>>,
    drained: BTreeMap<String, Leased<String>>,
    is_paused: bool,
    rewound: Option<Vec<u8>>,
    closed: Option<Vec<u8>>,
}

impl MemoryShared {
    /// Returns an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies the store.
    pub fn copy(&self) -> StoreCopy {
        StoreCopy(self.state().clone())
    }

    /// Rolls the store back to a copy, including its versions. Leases, and what was put with them, do not come back.
    pub fn roll_back(&self, StoreCopy(mut before): StoreCopy) {
        let leases: Vec<_> = before.leases.keys().copied().collect();
        leases.into_iter().for_each(|id| before.end(id));
        let mut state = self.state();
        before.n_leases = state.n_leases;
        *state = before;
        drop(state);
        self.inner.changed.notify_all();
    }

    /// Locks the contents, without what has ended.
    fn state(&self) -> MutexGuard<'_, MemoryContents> {
        let mut state = lock(&self.inner.state);
        state.expire(pace::now());
        state
    }

    /// Changes the contents, and wakes those that wait for a change.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut MemoryContents) -> T,
    ) -> Result<T, BackendFailure> {
        let mut state = self.state();
        state.version += 1;
        let done = change(&mut state);
        drop(state);
        self.inner.changed.notify_all();
        Ok(done)
    }
}

impl MemoryContents {
    fn expire(&mut self, now: Duration) {
        let over = self.leases.iter().filter(|(_, (_, until))| *until <= now);
        let over: Vec<_> = over.map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.end(id));
    }

    /// Ends a lease, and deletes what was put with it.
    fn end(&mut self, id: i64) {
        self.leases.remove(&id);
        self.leader.take_if(|leader| leader.lease == Some(id));
        self.nodes.retain(|_, node| node.lease != Some(id));
        self.drained.retain(|_, drained| drained.lease != Some(id));
    }

    fn has(&self, entry: Entry<'_>) -> bool {
        match entry {
            Entry::Id => self.id.is_some(),
            Entry::Head => self.head.is_some(),
            Entry::Leader => self.leader.is_some(),
            Entry::Manifest => self.manifest.is_some(),
            Entry::Rewound => self.rewound.is_some(),
            Entry::Closed => self.closed.is_some(),
            Entry::Node(name) => self.nodes.contains_key(name),
        }
    }

    fn leader_entry(&self) -> Option<LeaderEntry> {
        let Leased { value: (number, value), lease } = self.leader.as_ref()?;
        Some(LeaderEntry { number: *number, value: value.clone(), is_kept: lease.is_some() })
    }

    fn is_led_by(&self, tenure: &Tenure) -> bool {
        self.leader_entry().is_some_and(|leader| tenure.is(&leader))
    }

    fn requests(&self) -> Requests {
        let node = |(name, node): (&String, &Leased<Vec<u8>>)| NodeEntry {
            name: name.clone(),
            value: node.value.clone(),
        };
        Requests {
            drained: self.drained(),
            nodes: self.nodes.iter().map(node).collect(),
            is_paused: self.is_paused,
        }
    }

    fn drained(&self) -> Vec<(String, String)> {
        let drained = self.drained.iter();
        drained.map(|(node, drained)| (node.clone(), drained.value.clone())).collect()
    }
}

fn lease_id(lease: Option<Lease>) -> Option<i64> {
    lease.map(|lease| lease.id)
}

impl Backend for MemoryShared {
    fn system(&self) -> &str {
        "memory"
    }

    fn location(&self) -> &str {
        "/test/"
    }

    fn name_of(&self, entry: Entry<'_>) -> String {
        match entry {
            Entry::Node(name) => format!("/test/node/{name}"),
            other => format!("/test/{other:?}").to_lowercase(),
        }
    }

    fn deletion(&self, _: Option<Entry<'_>>) -> String {
        "end the process".into()
    }

    fn n_tries(&self) -> usize {
        1
    }

    fn wait(&self, patience: Duration) {
        let state = lock(&self.inner.state);
        let version = state.version;
        let unchanged = |state: &mut MemoryContents| state.version == version;
        drop(whole(self.inner.changed.wait_timeout_while(state, patience, unchanged)));
    }
}
