//! Keeps the seat while its writer goes on, and writes down how far that came.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leasehold_etcd::Kind;

use super::cluster::Cluster;
use super::compaction::Compaction;
use super::memory::Memory;
use crate::store::{Error, Place};

/// A writer that has done nothing for so long hangs, and must lose the seat. It writes or confirms every second.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// A thread that keeps etcd's lease. It ends with this.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    is_over: bool,
    /// When the writer last did something.
    alive_at: Instant,
    /// The last record that is known to be durable.
    place: Place,
    /// Why nobody should lead.
    astray: Option<String>,
}

/// The lease to keep.
pub(super) struct Lease {
    pub(super) id: i64,
    /// For so many seconds.
    pub(super) ttl: i64,
}

impl Keeper {
    pub(super) fn start(
        cluster: Arc<dyn Cluster>,
        lease: Lease,
        place: Place,
        memory: Memory,
        compaction: Compaction,
    ) -> Result<Self, Error> {
        let state = State { is_over: false, alive_at: Instant::now(), place, astray: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let kept = shared.clone();
        let thread = std::thread::Builder::new().name("keeper".into());
        let thread = thread.spawn(move || keep(&kept, &*cluster, &lease, memory, compaction));
        let thread = thread.map_err(|error| Error::Refused(error.to_string()))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The writer does something.
    pub(super) fn goes_on(&self) {
        self.shared.state().alive_at = Instant::now();
    }

    /// This is durable, and we know it.
    pub(super) fn settled(&self, place: Place) {
        self.shared.state().place = place;
    }

    /// Something is so wrong that nobody should lead before an operator has looked at it.
    pub(super) fn astray(&self, why: &str) {
        self.shared.state().astray = Some(why.into());
    }

    /// Keeps it no longer, and gives it back.
    pub(super) fn leave(&mut self) {
        self.shared.state().is_over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // What it has to say it has said.
            let _ = thread.join();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits; is it over?
    fn rest(&self, patience: Duration) -> bool {
        let going_on = |state: &mut State| !state.is_over;
        let rested = self.changed.wait_timeout_while(self.state(), patience, going_on);
        rested.unwrap_or_else(PoisonError::into_inner).0.is_over
    }
}

fn keep(
    shared: &Shared,
    cluster: &dyn Cluster,
    lease: &Lease,
    mut memory: Memory,
    mut compaction: Compaction,
) {
    let every = Duration::from_secs(lease.ttl.unsigned_abs().max(1)) / 3;
    while !shared.rest(every) {
        let (is_stuck, place) = {
            let state = shared.state();
            (state.alive_at.elapsed() > STUCK_AFTER, state.place)
        };
        memory.note_own(place);
        compaction.tend(cluster);
        if is_stuck {
            tracing::error!("the writer hangs; the seat is not kept");
            continue;
        }
        for _ in 0..cluster.n_members() {
            match cluster.lease_keep_alive(lease.id) {
                Ok(_) => break,
                Err(error) if error.kind == Kind::LeaseGone => {
                    // The writer finds out by itself, by what it compares.
                    tracing::warn!("the lease of the seat is over");
                    break;
                }
                Err(error) => tracing::debug!(%error, "the seat could not be kept"),
            }
        }
    }
    memory.note_own(shared.state().place);
    memory.flush();
    // Whoever comes next need not wait for it to run out.
    if let Err(error) = cluster.lease_revoke(lease.id) {
        tracing::debug!(%error, "the lease of the seat was not given back");
    }
}
