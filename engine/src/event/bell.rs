//! Wakes each worker at most once per batch, even if the batch has news for many of its readers.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use leasehold_base::sync::lock;
use tokio::sync::Notify;

use super::topic::Topic;

/// The bell number of readers without a worker. The writer wakes them directly.
pub(super) const NO_BELL: usize = usize::MAX;

/// The bells of all workers.
#[derive(Default)]
pub(super) struct Bells {
    workers: Mutex<Vec<Arc<Wire>>>,
    /// Topics with readers that belong to no worker.
    direct: Mutex<Vec<Arc<Topic>>>,
    /// The number of topics with news for which no bell was rung yet.
    n_news: AtomicUsize,
}

/// The state that the writer and one worker share.
#[derive(Default)]
struct Wire {
    topics: Mutex<Vec<Arc<Topic>>>,
    rung: Notify,
}

/// The worker's side of a bell.
#[derive(Clone)]
pub(crate) struct Bell {
    pub(super) number: usize,
    wire: Arc<Wire>,
}

impl Bells {
    pub(super) fn add(&self) -> Bell {
        let mut workers = lock(&self.workers);
        let wire = Arc::<Wire>::default();
        workers.push(wire.clone());
        Bell { number: workers.len() - 1, wire }
    }

    /// Notes that `topic` has news for sleeping readers with this bell.
    pub(super) fn add_topic(&self, bell: usize, topic: &Arc<Topic>) {
        let workers = lock(&self.workers);
        let mut topics = match workers.get(bell) {
            Some(wire) => lock(&wire.topics),
            None => lock(&self.direct),
        };
        // The events of a batch often have the same topic.
        if !topics.last().is_some_and(|last| Arc::ptr_eq(last, topic)) {
            topics.push(topic.clone());
            self.n_news.fetch_add(1, Relaxed);
        }
    }

    /// Rings every bell that has news.
    pub(super) fn ring(&self) {
        if self.n_news.swap(0, Relaxed) == 0 {
            return;
        }
        for wire in lock(&self.workers).iter() {
            if !lock(&wire.topics).is_empty() {
                wire.rung.notify_one();
            }
        }
        let direct = std::mem::take(&mut *lock(&self.direct));
        direct.iter().for_each(|topic| topic.wake(NO_BELL));
    }
}

impl Bell {
    /// Wakes the worker's readers whenever the bell rings. Never returns.
    pub(crate) async fn answer(self) {
        loop {
            self.wire.rung.notified().await;
            let topics = std::mem::take(&mut *lock(&self.wire.topics));
            topics.iter().for_each(|topic| topic.wake(self.number));
        }
    }
}
