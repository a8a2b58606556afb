//! Look at leases that are held or waited for long, and write down what is worth it.

use std::sync::Arc;

use crate::arena::Slot;
use crate::change::{Change, Note};
use crate::lease::Lease;
use crate::mutant;
use crate::time::Timestamp;
use crate::transition::Transition;

/// Most waits that are followed in one sweep; each look counts as one more.
const N_EDGES_PER_SWEEP: usize = 1024;

/// Looks at whoever is due, within a bounded amount of work; the rest is for the next sweep. How many looks.
pub(crate) fn look(t: &mut Transition<'_>) -> usize {
    let (mut n_looks, mut n_edges) = (0, 0);
    while n_edges < N_EDGES_PER_SWEEP
        && let Some((at, slot)) = t.state.vigil.first().filter(|(at, _)| *at <= t.now)
    {
        n_edges += 1 + look_at(t, slot, at);
        n_looks += 1;
    }
    n_looks
}

/// How many waits were followed.
fn look_at(t: &mut Transition<'_>, slot: Slot<Lease>, at: Timestamp) -> usize {
    // Whoever is over by now is not held, and waits no more; the sweep that ends it has just not come to it.
    if t.state.overdue(&t.state.leases[slot], t.now).is_some() {
        t.state.vigil.remove(slot);
        return 0;
    }
    if t.state.leases[slot].is_active() {
        note(t, slot, Note::HeldLong, None);
        t.state.look_again(slot, t.now);
        return 0;
    }
    // Of leases that wait together, the one that is in the way of all.
    let group = t.state.leases[slot].group();
    let held_up = group.and_then(|group| t.state.first_held_up(group, t.now, t.limits));
    let noted = held_up.unwrap_or(slot);
    if t.state.vigil.is_wait_long(&t.state.leases[slot], at, t.now) {
        note(t, noted, Note::WaitedLong, None);
    }
    let mut n_edges = 0;
    if t.state.vigil.is_for_deadlock(&t.state.leases[slot], at, t.now) {
        let (edges_max, bytes_max) = (t.limits.deadlock_edges_max, t.limits.reason_bytes_max);
        let walk = t.state.seek_circle(slot, edges_max, bytes_max);
        n_edges = walk.n_edges;
        if walk.circle.is_some() || mutant!(DeadlockWithoutCircle) {
            note(t, noted, Note::DeadlockSuspected, walk.circle);
        }
    }
    t.state.look_again(slot, t.now);
    n_edges
}

fn note(t: &mut Transition<'_>, slot: Slot<Lease>, what: Note, reason: Option<Arc<str>>) {
    let lease = t.state.leases[slot].number;
    t.record(Change::Noted { lease, what, at: t.now, reason });
}
