//! Requests of other servers that are being answered, so that one whose client is gone can be given up; and what the
//! latest of them were granted, so that it can be given back if the answer was lost on its way to the other server.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use leasehold_core::LeaseNumber;
use tokio::sync::Notify;

use crate::sync::lock;

/// So many of the latest grants are remembered. A link that is silently cut is noticed within seconds.
const GRANTS_MAX: usize = 65_536;

/// By what they are called. Whichever thread is told of one, all of them know it: what is told after a connection broke
/// comes by another one. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct UnderWay(Arc<Mutex<All>>);

#[derive(Default)]
struct All {
    asked: HashMap<u64, Arc<Notify>>,
    /// What was answered, and in which epoch it was granted.
    granted: HashMap<u64, Grant>,
    /// The same, the oldest first.
    order: VecDeque<u64>,
}

/// In which epoch, and what.
pub(super) type Grant = (u64, LeaseNumber);

/// One of them, until it is dropped.
pub(super) struct Request {
    all: UnderWay,
    id: u64,
    gone: Arc<Notify>,
}

impl UnderWay {
    pub(super) fn begin(&self, id: u64) -> Request {
        let gone = Arc::new(Notify::new());
        lock(&self.0).asked.insert(id, gone.clone());
        Request { all: self.clone(), id, gone }
    }

    /// Nobody waits for its answer any more. If it was answered already: what is to be given back.
    pub(super) fn give_up(&self, id: u64) -> Option<Grant> {
        let mut all = lock(&self.0);
        if let Some(gone) = all.asked.get(&id) {
            gone.notify_one();
        }
        all.granted.remove(&id)
    }
}

impl Request {
    /// Returns when nobody waits for its answer any more.
    pub(super) async fn gone(&self) {
        self.gone.notified().await;
    }

    /// The answer grants this.
    pub(super) fn grants(&self, grant: Grant) {
        let mut all = lock(&self.all.0);
        all.granted.insert(self.id, grant);
        all.order.push_back(self.id);
        if all.order.len() > GRANTS_MAX
            && let Some(oldest) = all.order.pop_front()
        {
            all.granted.remove(&oldest);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        lock(&self.all.0).asked.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_grants_are_remembered_until_they_are_given_up() {
        let under_way = UnderWay::default();
        let grant = |id: u64| (1, LeaseNumber(id));
        for id in 0..=GRANTS_MAX as u64 {
            under_way.begin(id).grants(grant(id));
        }
        assert_eq!(under_way.give_up(0), None, "that was too long ago");
        assert_eq!(under_way.clone().give_up(1), Some(grant(1)));
        assert_eq!(under_way.give_up(1), None, "once");
        let all = lock(&under_way.0);
        assert!(all.asked.is_empty() && all.granted.len() < GRANTS_MAX);
        assert_eq!(all.order.len(), GRANTS_MAX);
    }
}
