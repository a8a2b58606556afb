//! Whole stores.

use super::{MemoryContents, MemoryShared};
use crate::Place;
use crate::shared::{
    BackendFailure, Contents, HeadEntry, LeaderEntry, Lifecycle, Reopened, Replaced, Tenure,
    Versioned,
};

impl MemoryContents {
    fn is_as_expected(&self, replaces: Replaced<'_>) -> bool {
        match replaces {
            Replaced::Store(id) => self.id.as_deref() == Some(id),
            Replaced::WithoutId => self.id.is_none(),
            Replaced::Nothing => self.id.is_none() && self.head.is_none(),
        }
    }
}

impl Lifecycle for MemoryShared {
    fn n_entries(&self, with_chunks: bool) -> Result<u64, BackendFailure> {
        let state = self.state();
        let named = [
            state.id.is_some(),
            state.head.is_some(),
            state.leader.is_some(),
            state.manifest.is_some(),
            state.is_paused,
            state.rewound.is_some(),
            state.closed.is_some(),
        ];
        let n_named = named.iter().filter(|is_there| **is_there).count();
        let n_chunks = if with_chunks { state.chunks.len() } else { 0 };
        let n_others = state.records.len() + state.nodes.len() + state.drained.len();
        Ok((n_named + n_others + n_chunks) as u64)
    }

    fn enclosing(&self) -> Result<Option<(String, String)>, BackendFailure> {
        Ok(None)
    }

    fn create(&self, id: &[u8]) -> Result<bool, BackendFailure> {
        self.change(|state| {
            let is_new = state.is_as_expected(Replaced::Nothing);
            if is_new {
                state.id = Some(id.to_vec());
                state.head = Some(HeadEntry { place: Place::default(), at: state.version });
            }
            is_new
        })
    }

    fn drop_chunks(&self, tenure: &Tenure) -> Result<(), BackendFailure> {
        self.change(|state| {
            if state.is_led_by(tenure) {
                state.chunks.clear();
            }
        })
    }

    fn replace(
        &self,
        tenure: &Tenure,
        contents: &Contents<'_>,
    ) -> Result<Option<i64>, BackendFailure> {
        let Contents { id, manifest, head, replaces } = *contents;
        self.change(|state| {
            if !state.is_led_by(tenure) || !state.is_as_expected(replaces) {
                return None;
            }
            let at = state.version;
            state.id = Some(id.to_vec());
            state.manifest = Some(Versioned { value: manifest.to_vec(), at });
            state.head = Some(HeadEntry { place: head, at });
            state.records.clear();
            (state.rewound, state.closed) = (None, None);
            Some(at)
        })
    }

    fn put_id(
        &self,
        id: &[u8],
        before: &[u8],
        leader: &LeaderEntry,
    ) -> Result<bool, BackendFailure> {
        self.change(|state| {
            let is_led = state.leader_entry().as_ref() == Some(leader);
            let is_before = state.id.as_deref() == Some(before);
            if is_led && is_before {
                state.id = Some(id.to_vec());
            }
            is_led && is_before
        })
    }

    fn reopen(&self) -> Result<Reopened, BackendFailure> {
        self.change(|state| match state.closed {
            _ if state.leader.is_some() => Reopened::Led,
            Some(_) => {
                state.closed = None;
                Reopened::Done
            }
            None => Reopened::NotClosed,
        })
    }
}
