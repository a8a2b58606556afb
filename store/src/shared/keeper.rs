//! Keeps the leader's entry while the writer makes progress, and records how far the journal goes.

use std::sync::Arc;
use std::time::Duration;

use leasehold_base::pace;
use leasehold_core::mutant;

use super::aide::{Aide, Shared};
use super::backend::{Backend, FailureKind, Lease};
use super::memory::Memory;
use super::watch::Watch;
use crate::{Dismissal, Error, Health, Place};

/// A writer without any progress for this time is stuck, and must lose leadership. A working one writes or confirms
/// every second.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// A thread that keeps the lease of the leader's entry. Dropping this value ends the thread.
pub(super) struct Keeper(Aide<State>);

pub(super) struct State {
    /// When the writer last made progress.
    alive_at: Duration,
    /// The last record known to be durable.
    place: Place,
    /// Why another node has to lead, if it has to.
    dismissed: Option<Dismissal>,
}

/// What the thread does apart from keeping the lease.
pub(super) struct Upkeep {
    /// How often earlier values are removed from the store, if at all.
    pub(super) tends_every: Option<Duration>,
    pub(super) watch: Watch,
    pub(super) health: Arc<Health>,
}

impl Keeper {
    pub(super) fn start(
        backend: Arc<dyn Backend>,
        lease: Lease,
        place: Place,
        memory: Memory,
        mut upkeep: Upkeep,
    ) -> Result<Self, Error> {
        let state = State { alive_at: pace::now(), place, dismissed: None };
        let work = move |shared: &Shared<State>| {
            keep(shared, &*backend, lease, memory, &mut upkeep);
            upkeep.health.pulse().left();
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
    backend: &dyn Backend,
    lease: Lease,
    mut memory: Memory,
    Upkeep { tends_every, watch, health }: &mut Upkeep,
) {
    health.pulse().kept();
    let every = Duration::from_secs(lease.ttl.unsigned_abs().max(1)) / 3;
    while !shared.rest(every) {
        let (is_stuck, place) = {
            let state = shared.state();
            (pace::now().saturating_sub(state.alive_at) > STUCK_AFTER, state.place)
        };
        memory.note_own(place);
        if let Some(Err(error)) = tends_every.map(|every| backend.tend(every)) {
            tracing::debug!(%error, "earlier values were not removed from the store");
        }
        if is_stuck && !mutant!(KeptThoughStuck) {
            tracing::error!("writer is stuck; not renewing leadership");
            continue;
        }
        for _ in 0..backend.n_tries() {
            match backend.keep(lease) {
                Ok(()) => {
                    health.pulse().kept();
                    break;
                }
                Err(error) if error.kind == FailureKind::LeaseGone => {
                    // The writer finds out by itself, because its writes compare the leader's entry.
                    tracing::warn!("the leadership lease has expired");
                    break;
                }
                Err(error) => tracing::debug!(%error, "cannot renew leadership"),
            }
        }
        // This runs after the renewal, so that however long it takes, it does not cost the leadership.
        if let Ok(dismissed) = watch.look(backend, health) {
            shared.state().dismissed = dismissed;
        }
    }
    memory.note_own(shared.state().place);
    memory.flush();
    // With the lease revoked, the next leader does not have to wait until it expires.
    if let Err(error) = backend.revoke(lease) {
        tracing::debug!(%error, "cannot release the leadership lease");
    }
}
