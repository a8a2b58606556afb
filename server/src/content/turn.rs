//! Whose turn it is to publish at a path.
//!
//! A lock on a file belongs to a session, and a session may write one file twice at once. Between looking at what is
//! there and replacing it nobody else may do the same, so there is one set of turns for the whole server: whichever
//! worker serves a request, and whichever path leads to the file.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::path::FilePath;

/// How many publish at once at most. Two files may share a turn; they wait a little, that is all.
const N_TURNS: usize = 64;

/// The turns of one files folder.
#[derive(Clone)]
pub(super) struct Turns(Arc<[Arc<Mutex<()>>]>);

impl Default for Turns {
    fn default() -> Self {
        Self((0..N_TURNS).map(|_| Arc::default()).collect())
    }
}

impl Turns {
    /// Waits until nobody else publishes at this path, and lets nobody until dropped.
    pub(super) async fn take(&self, path: &FilePath) -> OwnedMutexGuard<()> {
        let mut hasher = DefaultHasher::new();
        path.as_str().hash(&mut hasher);
        self.0[hasher.finish() as usize % N_TURNS].clone().lock_owned().await
    }

    /// All of them, always in one order: so two never wait for each other.
    pub(super) async fn take_all(&self) -> Vec<OwnedMutexGuard<()>> {
        let mut all = Vec::with_capacity(N_TURNS);
        for turn in &*self.0 {
            all.push(turn.clone().lock_owned().await);
        }
        all
    }
}
