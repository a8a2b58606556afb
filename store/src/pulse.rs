//! Signs of life of a cluster's store.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use leasehold_base::sync::lock;

use super::reach::{Obstacle, Tries, Unreached};

/// Signs of life, written by the store and the seat and read by monitoring. An embedded store has none.
#[derive(Default)]
pub struct Pulse {
    seen_at: Mutex<Option<Instant>>,
    whole_at: Mutex<Option<Instant>>,
    kept_at: Mutex<Option<Instant>>,
    lag: AtomicU64,
    is_drained: AtomicBool,
    tries: Mutex<Tries>,
    /// The number of servers that report that they cannot reach this leader.
    unreached_by: AtomicU64,
    /// The wall-clock time of the latest snapshot, or 0 if none is known.
    snapshot_ms: AtomicI64,
}

impl Pulse {
    /// Returns how long ago the store last responded with what this server needs to lead or follow, or `None` if it
    /// never did.
    pub fn seen_age(&self) -> Option<Duration> {
        age(&self.seen_at)
    }

    /// Returns how long ago the leader key was last renewed, or `None` if this server does not lead.
    pub fn kept_age(&self) -> Option<Duration> {
        age(&self.kept_at)
    }

    /// Returns how long ago this server had read the whole journal, or `None` if it never had.
    pub fn whole_age(&self) -> Option<Duration> {
        age(&self.whole_at)
    }

    /// Returns how many known records this server has not read yet.
    pub fn lag(&self) -> u64 {
        self.lag.load(Relaxed)
    }

    /// Returns the age of the state in the latest snapshot, by the wall clock, or `None` if no snapshot is known.
    pub fn snapshot_age(&self, wall_ms: i64) -> Option<Duration> {
        let at = self.snapshot_ms.load(Relaxed);
        let age_ms = u64::try_from(wall_ms.saturating_sub(at)).unwrap_or(0);
        (at != 0).then_some(Duration::from_millis(age_ms))
    }

    /// Returns whether this server is drained: it accepts no new connections and does not lead.
    pub fn is_drained(&self) -> bool {
        self.is_drained.load(Relaxed)
    }

    /// Returns the leader, if this server follows and cannot reach it.
    pub fn unreached(&self) -> Option<Unreached> {
        lock(&self.tries).unreached(Instant::now())
    }

    /// Returns the number of servers that report that they cannot reach this leader.
    pub fn unreached_by(&self) -> u64 {
        self.unreached_by.load(Relaxed)
    }

    /// For followers: records a try that began at `began` and did not reach this leader, which has led since this
    /// revision.
    pub fn did_not_reach(&self, leader: (&str, i64), why: Obstacle, began: Instant) {
        lock(&self.tries).failed(leader, why, (began, Instant::now()));
    }

    /// For followers: records that the leader was reached, or that there is no leader.
    pub fn reached(&self) {
        lock(&self.tries).succeeded();
    }

    /// For stores: records how many servers report that they cannot reach this leader.
    pub fn not_reached_by(&self, n: usize) {
        self.unreached_by.store(n as u64, Relaxed);
    }

    /// For stores: records whether this server is drained.
    pub fn drained(&self, is_drained: bool) {
        self.is_drained.store(is_drained, Relaxed);
    }

    /// For stores: records that the store responded, and how many records are still to be read.
    pub fn seen(&self, lag: u64) {
        let now = Some(Instant::now());
        *lock(&self.seen_at) = now;
        if lag == 0 {
            *lock(&self.whole_at) = now;
        }
        self.lag.store(lag, Relaxed);
    }

    /// For stores: records that the leader key was renewed.
    pub fn kept(&self) {
        *lock(&self.kept_at) = Some(Instant::now());
    }

    /// For stores: records that this server does not lead any more.
    pub fn left(&self) {
        *lock(&self.kept_at) = None;
        self.not_reached_by(0);
    }

    /// For stores: records that there is a snapshot of the state at this wall-clock time.
    pub fn snapshot(&self, wall_ms: i64) {
        self.snapshot_ms.store(wall_ms, Relaxed);
    }
}

fn age(at: &Mutex<Option<Instant>>) -> Option<Duration> {
    lock(at).map(|at| at.elapsed())
}
