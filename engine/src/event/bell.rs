//! One wake-up per worker and batch, however many of its readers there is news for.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use leasehold_base::sync::lock;
use tokio::sync::Notify;

use super::topic::Topic;

/// Readers that belong to no worker are woken by whoever writes.
pub(super) const NO_BELL: usize = usize::MAX;

/// The bells of all workers.
#[derive(Default)]
pub(super) struct Bells {
    workers: Mutex<Vec<Arc<Wire>>>,
    /// Topics with readers that belong to no worker.
    direct: Mutex<Vec<Arc<Topic>>>,
    /// How many topics have news that no bell was rung for.
    n_news: AtomicUsize,
}

/// Between the writer and one worker.
#[derive(Default)]
struct Wire {
    topics: Mutex<Vec<Arc<Topic>>>,
    rung: Notify,
}

/// A worker's end of it.
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

    /// There is news for readers of `topic` that sleep by this bell.
    pub(super) fn add_topic(&self, bell: usize, topic: &Arc<Topic>) {
        let workers = lock(&self.workers);
        let mut topics = match workers.get(bell) {
            Some(wire) => lock(&wire.topics),
            None => lock(&self.direct),
        };
        // The events of a batch are often of one topic.
        if !topics.last().is_some_and(|last| Arc::ptr_eq(last, topic)) {
            topics.push(topic.clone());
            self.n_news.fetch_add(1, Relaxed);
        }
    }

    /// Rings every bell there is news for.
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
    /// Wakes the worker's readers whenever the bell rings, for ever.
    pub(crate) async fn answer(self) {
        loop {
            self.wire.rung.notified().await;
            let topics = std::mem::take(&mut *lock(&self.wire.topics));
            topics.iter().for_each(|topic| topic.wake(self.number));
        }
    }
}
