//! Requests of other servers that are being answered, so that one whose client is gone can be given up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::sync::lock;

/// By what they are called.
#[derive(Default)]
pub(super) struct UnderWay(Arc<Mutex<HashMap<u64, Arc<Notify>>>>);

/// One of them, until it is dropped.
pub(super) struct Request {
    all: Arc<Mutex<HashMap<u64, Arc<Notify>>>>,
    id: u64,
    gone: Arc<Notify>,
}

impl UnderWay {
    pub(super) fn begin(&self, id: u64) -> Request {
        let gone = Arc::new(Notify::new());
        lock(&self.0).insert(id, gone.clone());
        Request { all: self.0.clone(), id, gone }
    }

    /// Nobody waits for its answer any more.
    pub(super) fn give_up(&self, id: u64) {
        if let Some(gone) = lock(&self.0).get(&id) {
            gone.notify_one();
        }
    }
}

impl Request {
    /// Returns when nobody waits for its answer any more.
    pub(super) async fn gone(&self) {
        self.gone.notified().await;
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.id);
    }
}
