//! The state that all clients of a run share.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use leasehold::{Client, Moment, Stale};
use tokio::sync::watch;

use super::downstream::Downstream;
use super::history::{Breach, History};
use super::plan::Plan;
use super::tally::{Tally, locked};

pub(super) struct World {
    pub(super) client: Client,
    pub(super) plan: Plan,
    pub(super) names: Vec<String>,
    pub(super) tally: Tally,
    downstream: Downstream,
    history: Mutex<History>,
    began_at: Moment,
    is_stopped: watch::Sender<bool>,
    /// For each lock, the number of paused clients that held it.
    n_paused: Vec<AtomicUsize>,
}

impl World {
    pub(super) fn new(client: Client, plan: Plan) -> Self {
        let names = plan.names();
        Self {
            tally: Tally::default(),
            downstream: Downstream::new(names.clone()),
            history: Mutex::new(History::new(names.len())),
            began_at: client.clock().now(),
            is_stopped: watch::Sender::new(false),
            n_paused: names.iter().map(|_| AtomicUsize::new(0)).collect(),
            client,
            plan,
            names,
        }
    }

    pub(super) fn now(&self) -> Moment {
        self.client.clock().now()
    }

    pub(super) fn took(&self) -> Duration {
        self.now().since(self.began_at)
    }

    /// Returns the time left in the run, zero if the run was stopped.
    pub(super) fn left(&self) -> Duration {
        if *self.is_stopped.borrow() {
            return Duration::ZERO;
        }
        self.plan.duration.0.saturating_sub(self.took())
    }

    /// Completes when the duration of the run is over.
    pub(super) async fn end(&self) {
        self.client.clock().sleep_until(self.began_at + self.plan.duration.0).await;
    }

    /// Stops the run early.
    pub(super) fn stop(&self) {
        self.is_stopped.send_replace(true);
    }

    /// Completes when the run was stopped early.
    pub(super) async fn stopped(&self) {
        // This cannot fail: we own the sender.
        let _ = self.is_stopped.subscribe().wait_for(|is_stopped| *is_stopped).await;
    }

    /// Records a grant if it lasts beyond now, and returns whether it does. From then until `end`, no other client may
    /// hold the lock.
    pub(super) fn begin(&self, lock: usize, token: u64, end: Moment) -> bool {
        let mut history = self.history();
        // Read while the history is locked, so that its entries are in chronological order.
        let now = self.now();
        let is_sure = now < end;
        if is_sure {
            history.begin(lock, token, now);
        }
        is_sure
    }

    /// Records that the holder of `token` certainly holds the lock only until `until`.
    pub(super) fn cease(&self, lock: usize, token: u64, until: Moment) {
        self.history().end(lock, token, until);
    }

    /// Writes to the protected resource with this token.
    pub(super) fn write(&self, lock: usize, token: u64) -> Result<(), Stale> {
        self.downstream.write(lock, token, || self.history().wrote(lock, token))
    }

    pub(super) fn breach(&self, lock: usize, breach: Breach) {
        self.history().breach(lock, breach);
    }

    /// Waits until another client has written with a higher token.
    pub(super) async fn overtaken(&self, lock: usize, token: u64) {
        self.n_paused[lock].fetch_add(1, SeqCst);
        self.downstream.overtaken(lock, token).await;
        self.n_paused[lock].fetch_sub(1, SeqCst);
    }

    /// Returns the locks that paused clients held.
    pub(super) fn paused(&self) -> Vec<usize> {
        let all = self.n_paused.iter().enumerate();
        all.filter(|(_, n)| n.load(SeqCst) > 0).map(|(lock, _)| lock).collect()
    }

    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        locked(&self.history)
    }
}
