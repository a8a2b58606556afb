//! The keys of servers, and those by which operators make requests.

use leasehold_etcd::{KeyValue, Op, Txn, TxnResponse, When};

use super::guard::leader_entry;
use super::keys::{Keys, Range};
use super::{EtcdBackend, head, reading};
use crate::shared::{BackendFailure, Entries, Lease, NodeEntry, NodePut, Requests, Servers};

/// The index of each result in the response to a read of all entries.
const ID: usize = 0;
const HEAD: usize = 1;
const LEADER: usize = 2;
const MANIFEST: usize = 3;
const REWOUND: usize = 4;
const CLOSED: usize = 5;
/// The index of the first result of what operators request.
const REQUESTS: usize = 6;

/// Returns the servers that must not lead, and why.
pub(super) fn drained(keys: &Keys, found: &[KeyValue]) -> Vec<(String, String)> {
    let drained = |found: &KeyValue| {
        let node = keys.name_under("drain", &found.key).unwrap_or_default();
        (node.to_owned(), String::from_utf8_lossy(&found.value).into_owned())
    };
    found.iter().map(drained).collect()
}

impl EtcdBackend {
    /// Adds operations that read what operators request, and the servers.
    fn reading_requests(&self, txn: Txn) -> Txn {
        let range = |(first, end): Range| Op::GetRange(first, end, 0);
        txn.then(range(self.keys.drains()))
            .then(range(self.keys.nodes()))
            .then(Op::Get(self.keys.pause()))
    }

    fn requests_in(&self, answer: &TxnResponse, at: usize) -> Requests {
        let node = |found: &KeyValue| NodeEntry {
            name: self.keys.name_under("node", &found.key).unwrap_or_default().to_owned(),
            value: found.value.clone(),
        };
        Requests {
            drained: drained(&self.keys, answer.found_all(at)),
            nodes: answer.found_all(at + 1).iter().map(node).collect(),
            is_paused: answer.found(at + 2).is_some(),
        }
    }

    fn put(
        &self,
        key: Vec<u8>,
        word: &str,
        lease: Option<Lease>,
        when: Txn,
    ) -> Result<(), BackendFailure> {
        let lease = lease.map_or(0, |lease| lease.id);
        self.txn(when.then(Op::Put(key, word.into(), lease))).map(drop)
    }
}

impl Servers for EtcdBackend {
    fn put_node(
        &self,
        name: &str,
        value: &[u8],
        before: Option<&[u8]>,
        lease: Lease,
    ) -> Result<NodePut, BackendFailure> {
        let key = self.keys.node(name);
        let when = before.map_or(When::Absent, When::Is);
        let txn = Txn::default().when(key.clone(), when);
        let txn = txn.then(Op::Put(key.clone(), value.to_vec(), lease.id)).or_else(Op::Get(key));
        let answer = self.txn(txn)?;
        if answer.succeeded {
            return Ok(NodePut::Done);
        }
        let KeyValue { value, lease, .. } = answer.found(0).cloned().unwrap_or_default();
        Ok(NodePut::Differs { value, is_kept: lease != 0 })
    }

    fn requests(&self) -> Result<Requests, BackendFailure> {
        let answer = self.txn(self.reading_requests(Txn::default()))?;
        Ok(self.requests_in(&answer, 0))
    }

    fn drain(
        &self,
        node: &str,
        word: &str,
        lease: Option<Lease>,
        replaces: bool,
    ) -> Result<(), BackendFailure> {
        let key = self.keys.drain(node);
        let txn = match replaces {
            true => Txn::default(),
            false => Txn::default().when(key.clone(), When::Absent),
        };
        self.put(key, word, lease, txn)
    }

    fn pause(&self) -> Result<(), BackendFailure> {
        self.put(self.keys.pause(), "paused", None, Txn::default())
    }

    fn withdraw(&self, node: Option<&str>) -> Result<bool, BackendFailure> {
        let key = node.map_or_else(|| self.keys.pause(), |node| self.keys.drain(node));
        let answer = self.txn(reading([key.clone()]).then(Op::Delete(key)))?;
        Ok(answer.found(0).is_some())
    }

    fn forget(&self, node: &str) -> Result<(), BackendFailure> {
        let txn = Txn::default().then(Op::Delete(self.keys.node(node)));
        self.txn(txn.then(Op::Delete(self.keys.drain(node)))).map(drop)
    }

    fn entries(&self) -> Result<Entries, BackendFailure> {
        let keys = &self.keys;
        let small = [keys.id(), keys.head(), keys.leader(), keys.manifest()];
        let txn = reading(small.into_iter().chain([keys.rewound(), keys.closed()]));
        let answer = self.txn(self.reading_requests(txn))?;
        let value = |n: usize| answer.found(n).map(|found| found.value.clone());
        Ok(Entries {
            id: value(ID),
            head: head(answer.found(HEAD)),
            leader: answer.found(LEADER).map(leader_entry),
            manifest: value(MANIFEST),
            requests: self.requests_in(&answer, REQUESTS),
            rewound: value(REWOUND),
            closed: value(CLOSED),
        })
    }
}
