//! Handles expired deadlines and forgets old records, in slices.
//!
//! Correctness does not depend on the sweep, because every command settles the locks it uses. The sweep wakes waiters
//! on time and keeps memory bounded.

use std::collections::BTreeSet;

use crate::apply::look;
use crate::arena::Slot;
use crate::change::Change;
use crate::lease::{Ending, Lease, LeaseNumber};
use crate::limits::Limits;
use crate::lock::Lock;
use crate::mutant;
use crate::namespace::Namespace;
use crate::outcome::Swept;
use crate::session::Session;
use crate::state::State;
use crate::time::{Span, Timestamp};
use crate::transition::Transition;

/// Ended leases, by the time of their end.
type EndTimes = BTreeSet<(Timestamp, LeaseNumber)>;

pub(crate) fn sweep(t: &mut Transition<'_>, n_changes_max: usize) -> Swept {
    let mut n_done = 0;
    while t.n_changes().max(n_done) < n_changes_max && step(t) {
        n_done += 1;
    }
    n_done += look::look(t);
    Swept { n_done, more: next_deadline(t.state, t.limits).is_some_and(|at| at <= t.now) }
}

/// Returns the earliest instant at which a sweep has work to do.
pub(crate) fn next_deadline(state: &State, limits: &Limits) -> Option<Timestamp> {
    if !state.pending.is_empty() || !state.ending.is_empty() || !state.crowded.is_empty() {
        return Some(Timestamp::ZERO);
    }
    // Compared one by one instead of in a list, because every round calls this several times.
    let mut first = state.session_deadlines.first().map(|(at, _)| at);
    let mut consider = |at: Option<Timestamp>| {
        if let Some(at) = at {
            first = Some(first.map_or(at, |first| first.min(at)));
        }
    };
    consider(state.lease_deadlines.first().map(|(at, _)| at));
    consider(state.grace_deadlines.first().map(|(at, _)| at));
    consider(state.vigil.first().map(|(at, _)| at));
    consider(kept_until(state, limits));
    consider(answered_until(state, limits));
    consider(idle_until(state, limits));
    consider(state.namespaces.empty().next().map(|_| Timestamp::ZERO));
    first
}

/// Handles one item that is due. Returns false if no item is due.
fn step(t: &mut Transition<'_>) -> bool {
    expire_session(t)
        || expire_lease(t)
        || end_grace(t)
        || end_session_lease(t)
        || look_again(t)
        || forget_ended(t)
        || forget_idle(t)
        || forget_empty(t)
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
        // The lease was renewed since, but its entry among the deadlines was not moved until now.
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
    let due = |memory: &EndTimes, until: Option<Timestamp>| {
        let is_due = until.is_some_and(|at| at <= t.now);
        memory.first().filter(|_| is_due).map(|(_, lease)| *lease)
    };
    let lease = beyond_share(state)
        .or_else(|| due(&state.kept, kept_until(state, limits)))
        .or_else(|| due(&state.answered, answered_until(state, limits)));
    let Some(lease) = lease else { return false };
    t.record(Change::LeaseForgotten { lease });
    true
}

/// Returns the oldest ended lease of a principal that has more than its share.
fn beyond_share(state: &State) -> Option<LeaseNumber> {
    let account = state.owners.accounts.get(*state.crowded.first()?);
    account.too_much(&state.share).map(|slot| state.leases[slot].number)
}

/// Forgets the oldest ended leases if those of one principal, or all together, exceed their limits. Forgets at least as
/// many as the command added, so that the sweep never has to catch up.
pub(crate) fn trim(t: &mut Transition<'_>) {
    /// More than one per change, because the forgotten leases can be smaller than the new ones.
    const PER_CHANGE: usize = 4;
    let n_max = PER_CHANGE * t.n_changes().max(1);
    for _ in 0..n_max {
        let (state, limits) = (&*t.state, t.limits);
        if let Some(lease) = beyond_share(state) {
            t.record(Change::LeaseForgotten { lease });
            continue;
        }
        let memory = if is_kept_too_much(state, limits) {
            &state.kept
        } else if is_answered_too_much(state, limits) {
            &state.answered
        } else {
            return;
        };
        let Some((_, lease)) = memory.first().copied() else { return };
        t.record(Change::LeaseForgotten { lease });
    }
}

fn forget_idle(t: &mut Transition<'_>) -> bool {
    if idle_until(t.state, t.limits).is_none_or(|at| at > t.now) {
        return false;
    }
    let Some((lock, _)) = t.state.idle.first(&t.state.locks) else { return false };
    forget_lock(t, lock);
    true
}

/// Forgets an unused lock. The namespace's token floor preserves its last token.
pub(crate) fn forget_lock(t: &mut Transition<'_>, lock: Slot<Lock>) {
    let lock = t.state.key(lock);
    t.record(Change::LockForgotten { lock });
}

/// Forgets a namespace without locks. The token floor of unknown namespaces preserves its tokens.
fn forget_empty(t: &mut Transition<'_>) -> bool {
    let Some(empty) = t.state.namespaces.empty().next() else { return false };
    forget_namespace(t, empty);
    true
}

pub(crate) fn forget_namespace(t: &mut Transition<'_>, slot: Slot<Namespace>) {
    let namespace = t.state.namespaces.get(slot).name.clone();
    t.record(Change::NamespaceForgotten { namespace });
}

/// Returns when to forget the oldest ended lease that stays readable: immediately if there are too many or they are too
/// large.
fn kept_until(state: &State, limits: &Limits) -> Option<Timestamp> {
    let is_too_much = state.kept.len() > limits.ended_max || is_kept_too_much(state, limits);
    forget_at(&state.kept, is_too_much, limits.ended_retention)
}

/// Returns when the first of the ended leases that are kept to answer repeated requests can be dropped.
fn answered_until(state: &State, limits: &Limits) -> Option<Timestamp> {
    let too_many = state.answered.len() > limits.answered_max;
    let is_too_much = too_many || is_answered_too_much(state, limits);
    forget_at(&state.answered, is_too_much, limits.request_retention)
}

fn is_kept_too_much(state: &State, limits: &Limits) -> bool {
    state.footprint.ended > limits.ended_total_bytes_max
}

fn is_answered_too_much(state: &State, limits: &Limits) -> bool {
    state.footprint.requests > limits.requests_total_bytes_max
}

fn forget_at(memory: &EndTimes, is_too_much: bool, retention: Span) -> Option<Timestamp> {
    let (ended_at, _) = memory.first()?;
    Some(if is_too_much { Timestamp::ZERO } else { *ended_at + retention })
}

fn idle_until(state: &State, limits: &Limits) -> Option<Timestamp> {
    let (_, since) = state.idle.first(&state.locks)?;
    let too_many = state.idle.len() > limits.idle_max;
    Some(if too_many { Timestamp::ZERO } else { since + limits.idle_retention })
}
