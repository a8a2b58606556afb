//! The state as of one record, so that the records before it can go: chunks under keys, and a manifest that names them.

use leasehold_base::clock::Moment;
use leasehold_core::{Limits, Machine, mutant};
use leasehold_etcd::{Op, RangeRequest, Txn, When};
use serde::{Deserialize, Serialize};

use super::cluster::Cluster;
use super::guard::Tenure;
use super::image;
use super::keys::Keys;
use super::value::{self, HeadValue, hex, unhex};
use crate::{Hash, Place};
use leasehold_core::Timestamp;

/// Small enough that no append waits long behind one.
pub(super) const CHUNK_BYTES: usize = 128 << 10;
/// Chunks that are read at once.
const CHUNKS_MAX: i64 = 64;

/// What a snapshot is, and where.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The last record that is in it.
    pub(super) through: HeadValue,
    /// Its epoch, who wrote it, and when: boot id, time since boot, lock time, wall clock.
    pub(super) epoch: u64,
    pub(super) node: String,
    boot: String,
    boottime: u64,
    lock_time: u64,
    pub(super) wall_ms: i64,
    /// What its chunks are called.
    pub(super) name: String,
    pub(super) n_chunks: u64,
    pub(super) n_bytes: u64,
    hash: String,
    /// The one before, which is kept.
    pub(super) previous: Option<String>,
}

/// A state, and the last record that is in it.
pub(super) struct Origin {
    pub(super) place: Place,
    pub(super) epoch: u64,
    pub(super) node: Box<str>,
    pub(super) moment: Moment,
}

impl Manifest {
    pub(super) fn new(origin: &Origin, bytes: &[u8], previous: Option<String>) -> Self {
        let nonce: [u8; 8] = leasehold_base::random::bytes();
        Self {
            through: HeadValue::of(origin.place),
            epoch: origin.epoch,
            node: origin.node.to_string(),
            boot: hex(&origin.moment.boot_id),
            boottime: origin.moment.boottime,
            lock_time: origin.moment.lock_time.as_nanos(),
            wall_ms: origin.moment.wall_ms,
            name: format!("{:016x}-{}", origin.place.seq, hex(&nonce)),
            n_chunks: bytes.chunks(CHUNK_BYTES).len() as u64,
            n_bytes: bytes.len() as u64,
            hash: hex(&Hash::of(bytes).0),
            previous,
        }
    }

    pub(super) fn origin(&self) -> Result<Origin, String> {
        let damaged = || "the manifest of the snapshot is damaged".to_owned();
        Ok(Origin {
            place: self.through.place().ok_or_else(damaged)?,
            epoch: self.epoch,
            node: self.node.as_str().into(),
            moment: Moment {
                boot_id: unhex(&self.boot).ok_or_else(damaged)?,
                boottime: self.boottime,
                lock_time: Timestamp::from_nanos(self.lock_time),
                wall_ms: self.wall_ms,
            },
        })
    }

    /// The same state as of another record, which changed nothing in it.
    pub(super) fn through(self, origin: &Origin) -> Self {
        let Self { name, n_chunks, n_bytes, hash, previous, .. } = self;
        Self { name, n_chunks, n_bytes, hash, previous, ..Self::new(origin, &[], None) }
    }

    /// Writes one of its pieces, as long as the seat is ours.
    pub(super) fn put(
        &self,
        cluster: &dyn Cluster,
        keys: &Keys,
        tenure: &Tenure,
        (n, chunk): (u64, &[u8]),
    ) -> Result<(), String> {
        let put = Op::Put(keys.chunk(&self.name, n), chunk.into(), 0);
        let answer = cluster.txn(tenure.txn(keys).then(put).request());
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.succeeded { Ok(()) } else { Err("the seat is lost".into()) }
    }

    /// Its bytes, which must be what was written. A manifest that was read by a quorum names what cannot change any
    /// more, and what is missing or different shows in the hash: any member may be asked for that.
    fn read(&self, cluster: &dyn Cluster, keys: &Keys) -> Result<Vec<u8>, String> {
        self.read_from(cluster, keys, true)
    }

    /// The same right after it was written, which not every member may know yet.
    pub(super) fn read_back(&self, cluster: &dyn Cluster, keys: &Keys) -> Result<Vec<u8>, String> {
        self.read_from(cluster, keys, false)
    }

    fn read_from(
        &self,
        cluster: &dyn Cluster,
        keys: &Keys,
        serializable: bool,
    ) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::with_capacity(self.n_bytes as usize);
        let mut n_read = 0;
        while n_read < self.n_chunks {
            let request = RangeRequest {
                key: keys.chunk(&self.name, n_read),
                range_end: keys.chunks(&self.name).1,
                limit: CHUNKS_MAX,
                serializable,
                ..RangeRequest::default()
            };
            let found = cluster.range(request).map_err(|error| error.to_string())?;
            if found.kvs.is_empty() {
                return Err(format!("chunk {n_read} of snapshot {} is missing", self.name));
            }
            n_read += found.kvs.len() as u64;
            found.kvs.iter().for_each(|kv| bytes.extend_from_slice(&kv.value));
        }
        if hex(&Hash::of(&bytes).0) != self.hash {
            return Err(format!("snapshot {} is not what was written", self.name));
        }
        Ok(bytes)
    }
}

/// The snapshot there is, and the revision in which its manifest was put; 0: there is none.
pub(super) fn find(cluster: &dyn Cluster, keys: &Keys) -> Result<(Option<Manifest>, i64), String> {
    let key = keys.manifest();
    let txn = Txn::default().then(Op::Get(key.clone())).request();
    let answer = cluster.txn(txn).map_err(|error| error.to_string())?;
    let Some(found) = answer.found(0) else { return Ok((None, 0)) };
    Ok((Some(value::decode(&key, &found.value)?), found.mod_revision))
}

/// The state that is in a snapshot.
pub(super) fn load(
    cluster: &dyn Cluster,
    keys: &Keys,
    manifest: &Manifest,
    limits: Limits,
) -> Result<Machine, String> {
    let bytes = manifest.read(cluster, keys)?;
    image::decode(&bytes, limits, u128::from_le_bytes(leasehold_base::random::bytes()))
}

/// Deletes every snapshot but this one and the one before, as long as this is the one that counts: its manifest was put
/// in this revision.
pub(super) fn clean_up(
    cluster: &dyn Cluster,
    keys: &Keys,
    tenure: &Tenure,
    manifest: &Manifest,
    at: i64,
) {
    let (key, range_end) = keys.snapshots();
    let request = RangeRequest { key, range_end, keys_only: true, ..RangeRequest::default() };
    let Ok(found) = cluster.range(request) else { return };
    let mut names: Vec<_> = found.kvs.iter().filter_map(|kv| keys.name_of(&kv.key)).collect();
    names.dedup();
    let is_kept =
        |name: &String| *name == manifest.name || Some(name) == manifest.previous.as_ref();
    for name in names.into_iter().filter(|name| !is_kept(name)) {
        let (first, end) = keys.chunks(&name);
        let mut txn = tenure.txn(keys).when(keys.manifest(), When::PutAt(at));
        if mutant!(OrphansDeletedUnguarded) {
            txn = Txn::default();
        }
        if let Err(error) = cluster.txn(txn.then(Op::DeleteRange(first, end)).request()) {
            tracing::debug!(%error, "an old snapshot was not deleted");
        }
    }
}
