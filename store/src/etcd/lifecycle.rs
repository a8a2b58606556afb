//! Whole stores: all keys under a prefix.

use leasehold_etcd::{Op, RangeRequest, Txn, When};

use super::guard::leading;
use super::keys::Range;
use super::{EtcdBackend, reading};
use crate::Place;
use crate::shared::guard::Tenure;
use crate::shared::value::{self, HeadValue, Id};
use crate::shared::{BackendFailure, Contents, LeaderEntry, Lifecycle, Reopened, Replaced};

/// Returns a request that counts the keys in a range.
pub(super) fn counting((key, range_end): Range) -> RangeRequest {
    RangeRequest { key, range_end, count_only: true, ..RangeRequest::default() }
}

impl EtcdBackend {
    fn count(&self, range: Range) -> Result<u64, BackendFailure> {
        Ok(self.cluster.range(counting(range))?.count.unsigned_abs())
    }
}

impl Lifecycle for EtcdBackend {
    fn n_entries(&self, with_chunks: bool) -> Result<u64, BackendFailure> {
        let all = self.count(self.keys.all())?;
        if with_chunks {
            return Ok(all);
        }
        Ok(all.saturating_sub(self.count(self.keys.snapshots())?))
    }

    /// A store might delete unknown keys under its prefix.
    fn enclosing(&self) -> Result<Option<(String, String)>, BackendFailure> {
        let around = self.keys.around();
        if around.is_empty() {
            return Ok(None);
        }
        let answer = self.txn(reading(around.iter().map(super::Keys::id)))?;
        let is_store = |n: &usize| {
            let found = answer.found(*n);
            found.is_some_and(|found| serde_json::from_slice::<Id>(&found.value).is_ok())
        };
        let found = (0..around.len()).find(is_store);
        Ok(found.map(|n| (around[n].prefix().to_owned(), self.keys.beside())))
    }

    fn create(&self, id: &[u8]) -> Result<bool, BackendFailure> {
        let keys = &self.keys;
        let head = value::encode(&HeadValue::of(Place::default()));
        let txn = Txn::default()
            .when(keys.id(), When::Absent)
            .when(keys.head(), When::Absent)
            .then(Op::Put(keys.id(), id.to_vec(), 0))
            .then(Op::Put(keys.head(), head, 0));
        Ok(self.put_once(txn, keys.id(), id)?.is_some())
    }

    fn drop_chunks(&self, tenure: &Tenure) -> Result<(), BackendFailure> {
        let (first, end) = self.keys.snapshots();
        self.txn(leading(tenure, &self.keys).then(Op::DeleteRange(first, end))).map(drop)
    }

    fn replace(
        &self,
        tenure: &Tenure,
        contents: &Contents<'_>,
    ) -> Result<Option<i64>, BackendFailure> {
        let keys = &self.keys;
        let Contents { id, manifest, head, replaces } = contents;
        let txn = leading(tenure, keys);
        let txn = match replaces {
            Replaced::Store(before) => txn.when(keys.id(), When::Is(before)),
            Replaced::WithoutId => txn.when(keys.id(), When::Absent),
            Replaced::Nothing => txn.when(keys.id(), When::Absent).when(keys.head(), When::Absent),
        };
        let (first, end) = keys.slots_from(0);
        let txn = txn
            .then(Op::Put(keys.id(), id.to_vec(), 0))
            .then(Op::Put(keys.manifest(), manifest.to_vec(), 0))
            .then(Op::Put(keys.head(), value::encode(&HeadValue::of(*head)), 0))
            .then(Op::DeleteRange(first, end))
            .then(Op::Delete(keys.rewound()))
            .then(Op::Delete(keys.closed()));
        self.put_once(txn, keys.id(), id)
    }

    fn put_id(
        &self,
        id: &[u8],
        before: &[u8],
        leader: &LeaderEntry,
    ) -> Result<bool, BackendFailure> {
        let txn = Txn::default()
            .when(self.keys.id(), When::Is(before))
            .when(self.keys.leader(), When::CreatedAt(leader.number))
            .when(self.keys.leader(), When::Is(&leader.value))
            .then(Op::Put(self.keys.id(), id.to_vec(), 0));
        Ok(self.put_once(txn, self.keys.id(), id)?.is_some())
    }

    fn reopen(&self) -> Result<Reopened, BackendFailure> {
        let closed = self.keys.closed();
        let txn = Txn::default().when(self.keys.leader(), When::Absent);
        let answer = self.txn(txn.then(Op::Get(closed.clone())).then(Op::Delete(closed)))?;
        Ok(match answer.found(0) {
            _ if !answer.succeeded => Reopened::Led,
            Some(_) => Reopened::Done,
            None => Reopened::NotClosed,
        })
    }
}
