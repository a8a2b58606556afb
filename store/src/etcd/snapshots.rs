//! The keys of snapshots: one per chunk, and one for the manifest.

use leasehold_core::mutant;
use leasehold_etcd::{Op, RangeRequest, Txn, When};

use super::guard::leading;
use super::{EtcdBackend, head, reading};
use crate::shared::guard::Tenure;
use crate::shared::{BackendFailure, Census, SnapshotChunks, Versioned};

/// Maximum chunks in one read.
const CHUNKS_MAX: i64 = 64;

/// The index of each result in the response to a census.
const HEAD: usize = 0;
const MANIFEST: usize = 1;
const FIRST: usize = 2;
const RECORDS: usize = 3;
const CHUNKS: usize = 4;

impl SnapshotChunks for EtcdBackend {
    fn manifest(&self) -> Result<Option<Versioned>, BackendFailure> {
        let answer = self.txn(reading([self.keys.manifest()]))?;
        let found = answer.found(0);
        Ok(found.map(|found| Versioned { value: found.value.clone(), at: found.mod_revision }))
    }

    fn put_manifest(
        &self,
        tenure: &Tenure,
        value: &[u8],
        before_at: i64,
    ) -> Result<Option<i64>, BackendFailure> {
        let key = self.keys.manifest();
        let txn = leading(tenure, &self.keys).when(key.clone(), When::PutAt(before_at));
        let txn = txn.then(Op::Put(key.clone(), value.to_vec(), 0));
        let put = self.put_once(txn, key, value)?;
        if mutant!(TrimOfHead) && put.is_some() {
            self.trim_head(tenure, value);
        }
        Ok(put)
    }

    fn put_chunk(
        &self,
        tenure: &Tenure,
        snapshot: &str,
        (n, chunk): (u64, &[u8]),
    ) -> Result<bool, BackendFailure> {
        let put = Op::Put(self.keys.chunk(snapshot, n), chunk.to_vec(), 0);
        Ok(self.txn(leading(tenure, &self.keys).then(put))?.succeeded)
    }

    fn chunks(
        &self,
        snapshot: &str,
        from: u64,
        is_settled: bool,
    ) -> Result<Vec<Vec<u8>>, BackendFailure> {
        let request = RangeRequest {
            key: self.keys.chunk(snapshot, from),
            range_end: self.keys.chunks(snapshot).1,
            limit: CHUNKS_MAX,
            // Then a single member may answer.
            serializable: is_settled,
            ..RangeRequest::default()
        };
        let found = self.cluster.range(request)?;
        Ok(found.kvs.into_iter().map(|kv| kv.value).collect())
    }

    fn snapshots(&self) -> Result<Vec<String>, BackendFailure> {
        let (key, range_end) = self.keys.snapshots();
        let request = RangeRequest { key, range_end, keys_only: true, ..RangeRequest::default() };
        let found = self.cluster.range(request)?;
        let mut names: Vec<_> =
            found.kvs.iter().filter_map(|kv| self.keys.name_of(&kv.key)).collect();
        names.dedup();
        Ok(names)
    }

    fn drop_snapshot(
        &self,
        tenure: &Tenure,
        snapshot: &str,
        manifest_at: i64,
    ) -> Result<(), BackendFailure> {
        let (first, end) = self.keys.chunks(snapshot);
        let mut txn =
            leading(tenure, &self.keys).when(self.keys.manifest(), When::PutAt(manifest_at));
        if mutant!(OrphansDeletedUnguarded) {
            txn = Txn::default();
        }
        self.txn(txn.then(Op::DeleteRange(first, end))).map(drop)
    }

    fn census(&self, snapshot: &str) -> Result<Census, BackendFailure> {
        let (records, chunks) = (self.keys.slots_from(0), self.keys.chunks(snapshot));
        let txn = reading([self.keys.head(), self.keys.manifest()])
            .then(Op::GetRange(records.0.clone(), records.1.clone(), 1))
            .then(Op::Count(records.0, records.1))
            .then(Op::Count(chunks.0, chunks.1));
        let answer = self.txn(txn)?;
        let first = answer.found(FIRST);
        Ok(Census {
            head: head(answer.found(HEAD)),
            manifest: answer.found(MANIFEST).map(|found| found.value.clone()),
            first_record: first.and_then(|record| self.keys.seq_of(&record.key)),
            n_records: answer.n_found(RECORDS),
            n_chunks: answer.n_found(CHUNKS),
        })
    }
}
