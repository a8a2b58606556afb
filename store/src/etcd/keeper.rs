//! Keeps the leader key while the writer makes progress, and records how far the journal goes.

use std::sync::Arc;
use std::time::Duration;

use leasehold_base::pace;
use leasehold_core::mutant;
use leasehold_etcd::Kind;

use super::aide::{Aide, Shared};
use super::cluster::Cluster;
use super::compaction::Compaction;
use super::memory::Memory;
use super::watch::Watch;
use crate::{Dismissal, Error, Health, Place};

/// A writer without any progress for this time is stuck, and must lose leadership. A working one writes or confirms
/// every second.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// A thread that keeps the etcd lease of the leader key. Dropping this value ends the thread.
pub(super) struct Keeper(Aide<State>);

pub(super) struct State {
    /// When the writer last made progress.
    alive_at: Duration,
    /// The last record known to be durable.
    place: Place,
    /// Why another node has to lead, if it has to.
    dismissed: Option<Dismissal>,
}

/// The etcd lease of the leader key.
pub(super) struct Lease {
    pub(super) id: i64,
    /// Its TTL in seconds.
    pub(super) ttl: i64,
}

impl Keeper {
    pub(super) fn start(
        cluster: Arc<dyn Cluster>,
        lease: Lease,
        place: Place,
        memory: Memory,
        (compaction, watch, health): (Option<Compaction>, Watch, Arc<Health>),
    ) -> Result<Self, Error> {
        let state = State { alive_at: pace::now(), place, dismissed: None };
        let work = move |shared: &Shared<State>| {
            keep(shared, &*cluster, &lease, memory, (compaction, watch, &health));
            health.pulse().left();
        };
        Aide::start("keeper", state, work).map(Self)
    }

    /// Notes that the writer makes progress.
    pub(super) fn goes_on(&self) {
        self.0.state().alive_at = pace::now();
    }

    /// Notes that all records up to this place are durable.
    pub(super) fn settled(&self, place: Place) {
        self.0.state().place = place;
    }

    /// Returns whether another node has to lead.
    pub(super) fn is_dismissed(&self) -> bool {
        self.0.state().dismissed.is_some()
    }

    /// Returns why another node has to lead, if so.
    pub(super) fn dismissal(&self) -> Option<Dismissal> {
        self.0.state().dismissed.clone()
    }

    /// Stops renewing the lease, and revokes it.
    pub(super) fn leave(&mut self) {
        self.0.leave();
    }
}

fn keep(
    shared: &Shared<State>,
    cluster: &dyn Cluster,
    lease: &Lease,
    mut memory: Memory,
    (mut compaction, mut watch, health): (Option<Compaction>, Watch, &Health),
) {
    health.pulse().kept();
    let every = Duration::from_secs(lease.ttl.unsigned_abs().max(1)) / 3;
    while !shared.rest(every) {
        let (is_stuck, place) = {
            let state = shared.state();
            (pace::now().saturating_sub(state.alive_at) > STUCK_AFTER, state.place)
        };
        memory.note_own(place);
        compaction.iter_mut().for_each(|compaction| compaction.tend(cluster));
        if is_stuck && !mutant!(KeptThoughStuck) {
            tracing::error!("writer is stuck; not renewing leadership");
            continue;
        }
        for _ in 0..cluster.n_members() {
            match cluster.lease_keep_alive(lease.id) {
                Ok(_) => {
                    health.pulse().kept();
                    break;
                }
                Err(error) if error.kind == Kind::LeaseGone => {
                    // The writer finds out by itself, because its transactions compare the leader key.
                    tracing::warn!("the leadership lease has expired");
                    break;
                }
                Err(error) => tracing::debug!(%error, "cannot renew leadership"),
            }
        }
        // This runs after the renewal, so that however long it takes, it does not cost the leadership.
        if let Ok(dismissed) = watch.look(cluster, health) {
            shared.state().dismissed = dismissed;
        }
    }
    memory.note_own(shared.state().place);
    memory.flush();
    // With the lease revoked, the next leader does not have to wait until it expires.
    if let Err(error) = cluster.lease_revoke(lease.id) {
        tracing::debug!(%error, "cannot release the leadership lease");
    }
}
