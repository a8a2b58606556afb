//! The connection behind a lease is gone.

use crate::arena::Slot;
use crate::change::Change;
use crate::lease::{Ending, Lease, LeaseNumber, Phase};
use crate::mutant;
use crate::transition::Transition;

/// A waiter leaves, or is parked if it can come back. A lease whose grant nobody was told of is given back.
pub(crate) fn leave(t: &mut Transition<'_>, number: LeaseNumber) {
    let Some(slot) = t.state.find_lease(number) else { return };
    let lock = t.state.leases[slot].lock;
    match t.phase(slot) {
        Phase::Waiting if t.state.leases[slot].tethered => step_aside(t, slot),
        Phase::Active
            if t.state.leases[slot].is_known_elsewhere()
                && !mutant!(GiveBackWhatIsKnownElsewhere) =>
        {
            // Whoever was told through another connection has it.
            return;
        }
        Phase::Active => {
            // Nobody heard of this lease, so nobody can ask about it: it goes without a trace, and the same
            // request may be made again.
            let at = t.now;
            let (how, kept) = (Ending::Released, false);
            t.record(Change::Ended { lease: number, how, at, kept, request: None, reason: None });
        }
        _ => return,
    }
    t.promote(lock);
}

/// After a restart there are no connections: what [`leave`] does, for every waiter that had one.
pub(crate) fn resume(t: &mut Transition<'_>) {
    let is_waiting = |lease: &Lease| lease.phase == Phase::Waiting && lease.tethered;
    let leases = t.state.leases.iter().filter(|(_, lease)| is_waiting(lease));
    let mut waiters: Vec<_> =
        leases.map(|(slot, lease)| (lease.number, slot, lease.lock)).collect();
    waiters.sort_unstable();
    // All of them first: none may be granted a lock on the way out.
    for (_, waiter, _) in &waiters {
        step_aside(t, *waiter);
    }
    for (_, _, lock) in waiters {
        t.promote(lock);
    }
    if mutant!(RestartWithFullTtl) {
        let active = t.state.leases.iter().filter(|(_, lease)| lease.is_active());
        let active: Vec<_> = active.map(|(_, l)| (l.number, l.ttl.from(t.now))).collect();
        for (lease, deadline) in active {
            t.record(Change::Renewed { lease, at: t.now, deadline, request: None });
        }
    }
    // Nobody is there to be woken.
    t.wakeups.clear();
}

fn step_aside(t: &mut Transition<'_>, slot: Slot<Lease>) {
    let lease = &t.state.leases[slot];
    let number = lease.number;
    if lease.requests().is_empty() {
        let (how, kept) = (Ending::Released, lease.keep);
        let at = t.now;
        t.record(Change::Ended { lease: number, how, at, kept, request: None, reason: None });
    } else {
        let deadline = lease.deadline.min(t.now + t.limits.park_max);
        t.record(Change::Parked { lease: number, deadline });
    }
}
