//! Makes concurrent requests publish at the same path one after another.
//!
//! A lock on a file belongs to a session, and one session can send two writes for the same file at the same time. A
//! write checks the current file and then replaces it, and no other write can come between these steps. So the server
//! has a single set of turns for all worker threads and all dialects.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::path::FilePath;

/// The number of turns. Two paths can share a turn; then one of their writes waits for the other.
const N_TURNS: usize = 64;

/// The turns of one content store.
#[derive(Clone)]
pub(super) struct Turns(Arc<[Arc<Mutex<()>>]>);

impl Default for Turns {
    fn default() -> Self {
        Self((0..N_TURNS).map(|_| Arc::default()).collect())
    }
}

impl Turns {
    /// Waits until no other request publishes at this path. Other requests wait until the returned guard is dropped.
    pub(super) async fn take(&self, path: &FilePath) -> OwnedMutexGuard<()> {
        let mut hasher = DefaultHasher::new();
        path.as_str().hash(&mut hasher);
        self.0[hasher.finish() as usize % N_TURNS].clone().lock_owned().await
    }

    /// Waits for all turns. They are always taken in the same order, so two callers cannot deadlock.
    pub(super) async fn take_all(&self) -> Vec<OwnedMutexGuard<()>> {
        let mut all = Vec::with_capacity(N_TURNS);
        for turn in &*self.0 {
            all.push(turn.clone().lock_owned().await);
        }
        all
    }
}
