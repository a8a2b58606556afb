//! Signs of life of a store that several servers share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use leasehold_base::sync::lock;

use super::reach::{Obstacle, Tries, Unreached};

/// Written by the store and the seat, read by whoever watches them. A store of one server has none.
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
    /// By the wall clock; 0: there is none.
    snapshot_ms: AtomicI64,
}

impl Pulse {
    /// How long ago the store last said what this server needs to lead or to follow; `None`: it never did.
    pub fn seen_age(&self) -> Option<Duration> {
        age(&self.seen_at)
    }

    /// How long ago the seat was last kept; `None`: this server does not have it.
    pub fn kept_age(&self) -> Option<Duration> {
        age(&self.kept_at)
    }

    /// How long ago this server had read everything there was; `None`: it never had.
    pub fn whole_age(&self) -> Option<Duration> {
        age(&self.whole_at)
    }

    /// How many records are known of and not read yet.
    pub fn lag(&self) -> u64 {
        self.lag.load(Relaxed)
    }

    /// How old what the latest snapshot has is, by the wall clock; `None`: none is known of.
    pub fn snapshot_age(&self, wall_ms: i64) -> Option<Duration> {
        let at = self.snapshot_ms.load(Relaxed);
        let age_ms = u64::try_from(wall_ms.saturating_sub(at)).unwrap_or(0);
        (at != 0).then_some(Duration::from_millis(age_ms))
    }

    /// Is this server to take no new connections, and not to lead?
    pub fn is_drained(&self) -> bool {
        self.is_drained.load(Relaxed)
    }

    /// The leader, if this server follows and cannot reach it.
    pub fn unreached(&self) -> Option<Unreached> {
        lock(&self.tries).unreached(Instant::now())
    }

    /// The number of servers that report that they cannot reach this leader.
    pub fn unreached_by(&self) -> u64 {
        self.unreached_by.load(Relaxed)
    }

    /// For followers: records a try that began at `began` and did not reach this leader, which has led since this
    /// revision.
    pub fn did_not_reach(&self, leader: (&str, i64), why: Obstacle, began: Instant) {
        lock(&self.tries).failed(leader, why, (began, Instant::now()));
    }

    /// For followers: records that the leader was reached, or that there is none.
    pub fn reached(&self) {
        lock(&self.tries).succeeded();
    }

    /// For stores: records how many servers report that they cannot reach this leader.
    pub fn not_reached_by(&self, n: usize) {
        self.unreached_by.store(n as u64, Relaxed);
    }

    /// For stores: whether this server is drained.
    pub fn drained(&self, is_drained: bool) {
        self.is_drained.store(is_drained, Relaxed);
    }

    /// For stores: it said something, and so many records are still to be read.
    pub fn seen(&self, lag: u64) {
        let now = Some(Instant::now());
        *lock(&self.seen_at) = now;
        if lag == 0 {
            *lock(&self.whole_at) = now;
        }
        self.lag.store(lag, Relaxed);
    }

    /// For stores: the seat was kept.
    pub fn kept(&self) {
        *lock(&self.kept_at) = Some(Instant::now());
    }

    /// For stores: the seat is somebody else's.
    pub fn left(&self) {
        *lock(&self.kept_at) = None;
        self.not_reached_by(0);
    }

    /// For stores: there is a snapshot of what was written then.
    pub fn snapshot(&self, wall_ms: i64) {
        self.snapshot_ms.store(wall_ms, Relaxed);
    }
}

fn age(at: &Mutex<Option<Instant>>) -> Option<Duration> {
    lock(at).map(|at| at.elapsed())
}
