//! Checks leases that are held or waited for long, and notes suspicious ones.

use std::sync::Arc;

use crate::arena::Slot;
use crate::change::{Change, Note};
use crate::lease::Lease;
use crate::mutant;
use crate::time::Timestamp;
use crate::transition::Transition;

/// The maximum number of waits that one sweep follows. Each check counts as one more.
const N_EDGES_PER_SWEEP: usize = 1024;

/// Checks the leases that are due, within a bounded amount of work. The next sweep does the rest. Returns the number of
/// checks.
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

/// Checks one lease. Returns how many waits were followed.
fn look_at(t: &mut Transition<'_>, slot: Slot<Lease>, at: Timestamp) -> usize {
    // The lease has ended already, although the sweep has not recorded that yet. So it is neither held nor waiting.
    if t.state.overdue(&t.state.leases[slot], t.now).is_some() {
        t.state.vigil.remove(slot);
        return 0;
    }
    if t.state.leases[slot].is_active() {
        note(t, slot, Note::HeldLong, None);
        t.state.look_again(slot, t.now);
        return 0;
    }
    // Of a group, notes the lease that blocks the grant.
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
