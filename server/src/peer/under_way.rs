//! Forwarded requests in progress, and the latest grants to them.
//!
//! If a client disconnects, its request is abandoned. If a response was lost on its way to the other server, its grant
//! is released.
//!
//! Several requests can be granted the same lease: a server repeats a wait whose connection it lost, or its client
//! returns through another server. These requests share one guard, so the lease is released only when all of them are
//! abandoned.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use leasehold_base::sync::lock;
use leasehold_engine::Undelivered;
use tokio::sync::Notify;

/// Maximum grants that are remembered. A silently broken connection is noticed within seconds.
const GRANTS_MAX: usize = 65_536;

/// The requests by their ids, shared by all threads: after a connection broke, the message to abandon a request arrives
/// on another one. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct UnderWay(Arc<Mutex<All>>);

#[derive(Default)]
struct All {
    asked: HashMap<u64, AbandonState>,
    /// The guards of grants. Only the other server knows whether its client got the response.
    granted: HashMap<u64, Undelivered>,
    /// The ids in `granted`, oldest first.
    order: VecDeque<u64>,
}

struct AbandonState {
    gone: Arc<Notify>,
    is_given_up: bool,
}

impl Drop for All {
    /// The clients might have received their grants, so these stay.
    fn drop(&mut self) {
        self.granted.drain().for_each(|(_, undelivered)| undelivered.delivered());
    }
}

/// A request in progress, until it is dropped.
pub(super) struct Request {
    all: UnderWay,
    id: u64,
    gone: Arc<Notify>,
}

impl UnderWay {
    pub(super) fn begin(&self, id: u64) -> Request {
        let gone = Arc::new(Notify::new());
        let asked = AbandonState { gone: gone.clone(), is_given_up: false };
        lock(&self.0).asked.insert(id, asked);
        Request { all: self.clone(), id, gone }
    }

    /// Abandons a request because the other server gave it up. Its grant is released, unless another connection
    /// received it too.
    pub(super) fn give_up(&self, id: u64) {
        let mut all = lock(&self.0);
        if let Some(asked) = all.asked.get_mut(&id) {
            asked.is_given_up = true;
            asked.gone.notify_one();
        }
        let undelivered = all.granted.remove(&id);
        drop(all);
        drop(undelivered);
    }
}

impl Request {
    /// Returns when the other server has abandoned the request.
    pub(super) async fn gone(&self) {
        self.gone.notified().await;
    }

    /// Records the grant in the response. Returns the guard for the response, which abandons the request when dropped,
    /// or `None` if the request was already abandoned.
    pub(super) fn grants(&self, undelivered: Undelivered) -> Option<Undelivered> {
        let mut all = lock(&self.all.0);
        if all.asked.get(&self.id).is_some_and(|asked| asked.is_given_up) {
            return None;
        }
        all.granted.insert(self.id, undelivered);
        all.order.push_back(self.id);
        if all.order.len() > GRANTS_MAX
            && let Some(oldest) = all.order.pop_front()
            && let Some(undelivered) = all.granted.remove(&oldest)
        {
            undelivered.delivered();
        }
        let (all, id) = (self.all.clone(), self.id);
        Some(Undelivered::elsewhere(move || all.give_up(id)))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        lock(&self.all.0).asked.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    /// Returns a guard that counts how often its grant is released.
    fn guard(n_back: &Arc<AtomicUsize>) -> Undelivered {
        let n_back = n_back.clone();
        Undelivered::elsewhere(move || {
            n_back.fetch_add(1, Relaxed);
        })
    }

    /// Returns a request whose response with a grant was sent.
    fn answered(under_way: &UnderWay, id: u64, undelivered: Undelivered) {
        under_way.begin(id).grants(undelivered).expect("a guard").delivered();
    }

    #[test]
    fn the_latest_grants_are_remembered_until_they_are_given_up() {
        let (under_way, n_back) = (UnderWay::default(), Arc::new(AtomicUsize::new(0)));
        for id in 0..=GRANTS_MAX as u64 {
            answered(&under_way, id, guard(&n_back));
        }
        let given_up = |id| {
            under_way.clone().give_up(id);
            n_back.load(Relaxed)
        };
        assert_eq!(given_up(0), 0, "that was too long ago");
        assert_eq!(given_up(1), 1);
        assert_eq!(given_up(1), 1, "once");
        {
            let all = lock(&under_way.0);
            assert!(all.asked.is_empty() && all.granted.len() < GRANTS_MAX);
            assert_eq!(all.order.len(), GRANTS_MAX);
        }
        drop(under_way);
        assert_eq!(n_back.load(Relaxed), 1, "the clients may have the others");
    }

    #[test]
    fn an_undelivered_grant_is_released_once() {
        let (under_way, n_back) = (UnderWay::default(), Arc::new(AtomicUsize::new(0)));
        drop(under_way.begin(1).grants(guard(&n_back)));
        assert_eq!(n_back.load(Relaxed), 1);
        under_way.give_up(1);
        assert_eq!(n_back.load(Relaxed), 1);
        // The request is abandoned just before it is granted a lease.
        let request = under_way.begin(2);
        under_way.give_up(2);
        assert!(request.grants(guard(&n_back)).is_none());
        assert_eq!(n_back.load(Relaxed), 2);
    }

    #[test]
    fn a_grant_of_two_requests_is_released_once_both_are_abandoned() {
        let (under_way, n_back) = (UnderWay::default(), Arc::new(AtomicUsize::new(0)));
        let (one, two) = guard(&n_back).split();
        answered(&under_way, 1, one);
        answered(&under_way, 2, two);
        under_way.give_up(1);
        under_way.give_up(1);
        assert_eq!(n_back.load(Relaxed), 0);
        under_way.give_up(2);
        assert_eq!(n_back.load(Relaxed), 1);
        // The other request waits at this server.
        let (one, here) = guard(&n_back).split();
        answered(&under_way, 3, one);
        here.delivered();
        under_way.give_up(3);
        assert_eq!(n_back.load(Relaxed), 1);
    }
}
