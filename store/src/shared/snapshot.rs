//! Snapshots: the state as of one record, so that earlier records can be deleted. A snapshot consists of chunks,
//! and a manifest that names them.

use leasehold_base::clock::Moment;
use leasehold_core::{Limits, Machine};
use serde::{Deserialize, Serialize};

use super::backend::{Backend, Entry};
use super::guard::Tenure;
use super::image;
use super::value::{self, HeadValue, hex, unhex};
use crate::{Hash, Place};
use leasehold_core::Timestamp;

/// The size of a chunk. It is small, so that an append does not wait long behind one.
pub(super) const CHUNK_BYTES: usize = 128 << 10;

/// Describes a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The last record in the snapshot.
    pub(crate) through: HeadValue,
    /// The record's epoch, writer and time: boot id, time since boot, lock time, wall clock.
    pub(super) epoch: u64,
    pub(super) node: String,
    boot: String,
    boottime: u64,
    lock_time: u64,
    pub(super) wall_ms: i64,
    /// The name of its chunks.
    pub(super) name: String,
    pub(super) n_chunks: u64,
    pub(super) n_bytes: u64,
    hash: String,
    /// The name of the previous snapshot, which is kept.
    pub(super) previous: Option<String>,
}

/// The position of a state: the last record that it contains.
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

    /// Returns the manifest of the same state as of another record, which changed nothing in it.
    pub(super) fn through(self, origin: &Origin) -> Self {
        let Self { name, n_chunks, n_bytes, hash, previous, .. } = self;
        Self { name, n_chunks, n_bytes, hash, previous, ..Self::new(origin, &[], None) }
    }

    /// Writes one chunk, if we still lead.
    pub(super) fn put(
        &self,
        backend: &dyn Backend,
        tenure: &Tenure,
        chunk: (u64, &[u8]),
    ) -> Result<(), String> {
        match backend.put_chunk(tenure, &self.name, chunk) {
            Ok(true) => Ok(()),
            Ok(false) => Err("leadership was lost".into()),
            Err(failure) => Err(failure.to_string()),
        }
    }

    /// Reads the bytes and checks their hash. The manifest was up to date, so its chunks do not change any more, and a
    /// missing or different chunk fails the check. That is why this read may be outdated.
    fn read(&self, backend: &dyn Backend) -> Result<Vec<u8>, String> {
        self.read_from(backend, true)
    }

    /// Reads the bytes right after they were written, when not every member might have them yet.
    pub(super) fn read_back(&self, backend: &dyn Backend) -> Result<Vec<u8>, String> {
        self.read_from(backend, false)
    }

    fn read_from(&self, backend: &dyn Backend, is_settled: bool) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::with_capacity(self.n_bytes as usize);
        let mut n_read = 0;
        while n_read < self.n_chunks {
            let found = backend.chunks(&self.name, n_read, is_settled);
            let found = found.map_err(|failure| failure.to_string())?;
            if found.is_empty() {
                return Err(format!("chunk {n_read} of snapshot {} is missing", self.name));
            }
            n_read += found.len() as u64;
            found.iter().for_each(|chunk| bytes.extend_from_slice(chunk));
        }
        if hex(&Hash::of(&bytes).0) != self.hash {
            return Err(format!("snapshot {} is not what was written", self.name));
        }
        Ok(bytes)
    }
}

/// Reads the manifest of the current snapshot, and the version in which it was put, or 0 if there is no snapshot.
pub(super) fn find(backend: &dyn Backend) -> Result<(Option<Manifest>, i64), String> {
    let found = backend.manifest().map_err(|failure| failure.to_string())?;
    let Some(found) = found else { return Ok((None, 0)) };
    Ok((Some(value::decode(backend, Entry::Manifest, &found.value)?), found.at))
}

/// Reads the state in a snapshot.
pub(super) fn load(
    backend: &dyn Backend,
    manifest: &Manifest,
    limits: Limits,
) -> Result<Machine, String> {
    let bytes = manifest.read(backend)?;
    image::decode(&bytes, limits, u128::from_le_bytes(leasehold_base::random::bytes()))
}

/// Deletes all snapshots except this one and the previous one, if this one is still current: its manifest was put in
/// the version `at`.
pub(super) fn clean_up(backend: &dyn Backend, tenure: &Tenure, manifest: &Manifest, at: i64) {
    let Ok(names) = backend.snapshots() else { return };
    let is_kept =
        |name: &String| *name == manifest.name || Some(name) == manifest.previous.as_ref();
    for name in names.into_iter().filter(|name| !is_kept(name)) {
        if let Err(error) = backend.drop_snapshot(tenure, &name, at) {
            tracing::debug!(%error, "cannot delete an old snapshot");
        }
    }
}
