//! Snapshots as chunks of bytes, and the manifest that names the current one.

use super::{BackendFailure, FoundHead};
use crate::shared::guard::Tenure;

/// The chunks of snapshots, and their manifest.
pub trait SnapshotChunks {
    /// Reads the manifest of the current snapshot.
    fn manifest(&self) -> Result<Option<Versioned>, BackendFailure>;

    /// Puts the manifest if this leadership lasts and the manifest is still the one that was put in the version
    /// `before_at`, or absent if that is 0. Tries each member. Returns the version, or `None` if a condition does not
    /// hold.
    fn put_manifest(
        &self,
        tenure: &Tenure,
        value: &[u8],
        before_at: i64,
    ) -> Result<Option<i64>, BackendFailure>;

    /// Writes a chunk if this leadership lasts, and returns whether it does.
    fn put_chunk(
        &self,
        tenure: &Tenure,
        snapshot: &str,
        chunk: (u64, &[u8]),
    ) -> Result<bool, BackendFailure>;

    /// Reads chunks from this one on, as many as fit. `is_settled` allows outdated data, for chunks that do not change
    /// any more.
    fn chunks(
        &self,
        snapshot: &str,
        from: u64,
        is_settled: bool,
    ) -> Result<Vec<Vec<u8>>, BackendFailure>;

    /// Reads the names of all snapshots, including those without a manifest. They might be outdated.
    fn snapshots(&self) -> Result<Vec<String>, BackendFailure>;

    /// Deletes the chunks of a snapshot, if this leadership lasts and the manifest is still the one that was put in the
    /// version `manifest_at`.
    fn drop_snapshot(
        &self,
        tenure: &Tenure,
        snapshot: &str,
        manifest_at: i64,
    ) -> Result<(), BackendFailure>;

    /// Counts at one moment the records and the chunks of a snapshot, without reading them.
    fn census(&self, snapshot: &str) -> Result<Census, BackendFailure>;
}

/// A value, and the version of the store in which it was put.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Versioned {
    /// The value.
    pub value: Vec<u8>,
    /// The version of the store.
    pub at: i64,
}

/// How many records and chunks there are.
#[derive(Debug)]
pub struct Census {
    /// The end of the journal.
    pub head: FoundHead,
    /// The manifest of the current snapshot.
    pub manifest: Option<Vec<u8>>,
    /// The first record.
    pub first_record: Option<u64>,
    /// The number of records.
    pub n_records: u64,
    /// The number of chunks.
    pub n_chunks: u64,
}
