//! Work off what has fallen due, in slices.
//!
//! Correctness never waits for this: whoever touches a lock settles it first. Sweeping is what wakes
//! waiters on time and what keeps memory bounded.

use std::collections::BTreeSet;

use crate::arena::Slot;
use crate::change::Change;
use crate::lease::{Ending, Lease, LeaseNumber};
use crate::lock::Lock;
use crate::mutant;
use crate::outcome::Swept;
use crate::session::Session;
use crate::state::State;
use crate::time::{Span, Timestamp};
use crate::transition::Transition;

pub(crate) fn sweep(t: &mut Transition<'_>, n_changes_max: usize) -> Swept {
    let mut n_done = 0;
    while t.changes.len().max(n_done) < n_changes_max && step(t) {
        n_done += 1;
    }
    Swept { n_done, more: next_deadline(t.state, t.limits).is_some_and(|at| at <= t.now) }
}

/// The earliest instant at which a sweep has something to do.
pub(crate) fn next_deadline(state: &State, limits: &crate::Limits) -> Option<Timestamp> {
    if !state.pending.is_empty() || !state.ending.is_empty() {
        return Some(Timestamp::ZERO);
    }
    let deadlines = [
        state.session_deadlines.first().map(|(at, _)| at),
        state.lease_deadlines.first().map(|(at, _)| at),
        state.grace_deadlines.first().map(|(at, _)| at),
        forget_at(&state.kept, limits.ended_max, limits.ended_retention),
        forget_at(&state.answered, limits.answered_max, limits.request_retention),
        idle_until(state, limits),
    ];
    deadlines.into_iter().flatten().min()
}

/// Does one thing that is due; `false` if nothing is.
fn step(t: &mut Transition<'_>) -> bool {
    expire_session(t)
        || expire_lease(t)
        || end_grace(t)
        || end_session_lease(t)
        || look_again(t)
        || forget_ended(t)
        || forget_idle(t)
}

fn expire_session(t: &mut Transition<'_>) -> bool {
    let Some((at, slot)) = t.state.session_deadlines.first().filter(|(at, _)| *at <= t.now) else {
        return false;
    };
    let session = t.state.sessions[slot].number;
    t.record(Change::SessionEnded { session, how: Ending::Expired, at });
    true
}

fn expire_lease(t: &mut Transition<'_>) -> bool {
    let Some((_, slot)) = t.state.lease_deadlines.first().filter(|(at, _)| *at <= t.now) else {
        return false;
    };
    let Lease { lock, deadline, .. } = t.state.leases[slot];
    if t.expire_if_due(slot) {
        if !mutant!(ExpireWithoutPromote) {
            t.promote(lock);
        }
    } else {
        // Renewed since: only now is its later deadline written down.
        t.state.lease_deadlines.set(slot, deadline);
    }
    true
}

fn end_grace(t: &mut Transition<'_>) -> bool {
    let Some((_, lock)) = t.state.grace_deadlines.first().filter(|(at, _)| *at <= t.now) else {
        return false;
    };
    t.state.end_grace(lock);
    t.promote(lock);
    t.state.rest(lock);
    true
}

fn end_session_lease(t: &mut Transition<'_>) -> bool {
    let Some(slot) = t.state.ending.front().copied() else { return false };
    let Session { number, leases, .. } = t.state.sessions[slot];
    match leases {
        Some(lease) => {
            let lock = t.state.leases[lease].lock;
            t.expire_if_due(lease);
            t.promote(lock);
        }
        None => t.record(Change::SessionForgotten { session: number }),
    }
    true
}

fn look_again(t: &mut Transition<'_>) -> bool {
    let Some(lock) = t.state.pending.pop_front() else { return false };
    t.state.locks[lock].busy_mut().pending = false;
    t.promote(lock);
    t.state.rest(lock);
    true
}

fn forget_ended(t: &mut Transition<'_>) -> bool {
    let (state, limits) = (&*t.state, t.limits);
    let due = |memory: &BTreeSet<_>, n_max, retention| {
        let is_due = forget_at(memory, n_max, retention).is_some_and(|at| at <= t.now);
        memory.first().filter(|_| is_due).map(|(_, lease)| *lease)
    };
    let lease = due(&state.kept, limits.ended_max, limits.ended_retention)
        .or_else(|| due(&state.answered, limits.answered_max, limits.request_retention));
    let Some(lease) = lease else { return false };
    t.record(Change::LeaseForgotten { lease });
    true
}

fn forget_idle(t: &mut Transition<'_>) -> bool {
    if idle_until(t.state, t.limits).is_none_or(|at| at > t.now) {
        return false;
    }
    let Some((lock, _)) = t.state.idle.first(&t.state.locks) else { return false };
    forget_lock(t, lock);
    true
}

/// A lock nobody uses goes; its token stays in the namespace's floor.
pub(crate) fn forget_lock(t: &mut Transition<'_>, lock: Slot<Lock>) {
    let lock = t.state.key(lock);
    t.record(Change::LockForgotten { lock });
}

/// When the first of these ended leases is to be forgotten: at once if they are too many.
fn forget_at(
    memory: &BTreeSet<(Timestamp, LeaseNumber)>,
    n_max: usize,
    retention: Span,
) -> Option<Timestamp> {
    let (ended_at, _) = memory.first()?;
    Some(if memory.len() > n_max { Timestamp::ZERO } else { *ended_at + retention })
}

fn idle_until(state: &State, limits: &crate::Limits) -> Option<Timestamp> {
    let (_, since) = state.idle.first(&state.locks)?;
    let too_many = state.idle.len() > limits.idle_max;
    Some(if too_many { Timestamp::ZERO } else { since + limits.idle_retention })
}
