//! Snapshots.

use super::{MemoryContents, MemoryShared};
use crate::shared::{BackendFailure, Census, SnapshotChunks, Tenure, Versioned};

/// Maximum chunks in one read.
const CHUNKS_MAX: usize = 4;

impl MemoryContents {
    fn manifest_at(&self) -> i64 {
        self.manifest.as_ref().map_or(0, |manifest| manifest.at)
    }
}

impl SnapshotChunks for MemoryShared {
    fn manifest(&self) -> Result<Option<Versioned>, BackendFailure> {
        Ok(self.state().manifest.clone())
    }

    fn put_manifest(
        &self,
        tenure: &Tenure,
        value: &[u8],
        before_at: i64,
    ) -> Result<Option<i64>, BackendFailure> {
        self.change(|state| {
            (state.is_led_by(tenure) && state.manifest_at() == before_at).then(|| {
                let at = state.version;
                state.manifest = Some(Versioned { value: value.to_vec(), at });
                at
            })
        })
    }

    fn put_chunk(
        &self,
        tenure: &Tenure,
        snapshot: &str,
        (n, chunk): (u64, &[u8]),
    ) -> Result<bool, BackendFailure> {
        self.change(|state| {
            let is_ours = state.is_led_by(tenure);
            if is_ours {
                state.chunks.insert((snapshot.to_owned(), n), chunk.to_vec());
            }
            is_ours
        })
    }

    fn chunks(&self, snapshot: &str, from: u64, _: bool) -> Result<Vec<Vec<u8>>, BackendFailure> {
        let state = self.state();
        let range = (snapshot.to_owned(), from)..=(snapshot.to_owned(), u64::MAX);
        Ok(state.chunks.range(range).take(CHUNKS_MAX).map(|(_, chunk)| chunk.clone()).collect())
    }

    fn snapshots(&self) -> Result<Vec<String>, BackendFailure> {
        let mut names: Vec<_> = self.state().chunks.keys().map(|(name, _)| name.clone()).collect();
        names.dedup();
        Ok(names)
    }

    fn drop_snapshot(
        &self,
        tenure: &Tenure,
        snapshot: &str,
        manifest_at: i64,
    ) -> Result<(), BackendFailure> {
        self.change(|state| {
            if state.is_led_by(tenure) && state.manifest_at() == manifest_at {
                state.chunks.retain(|(name, _), _| name != snapshot);
            }
        })
    }

    fn census(&self, snapshot: &str) -> Result<Census, BackendFailure> {
        let state = self.state();
        let n_chunks = state.chunks.keys().filter(|(name, _)| name == snapshot).count();
        Ok(Census {
            head: Ok(state.head),
            manifest: state.manifest.as_ref().map(|manifest| manifest.value.clone()),
            first_record: state.records.keys().next().copied(),
            n_records: state.records.len() as u64,
            n_chunks: n_chunks as u64,
        })
    }
}
