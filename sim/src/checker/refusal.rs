//! Checks that a rejected request has no effect: no client is shown as a holder if all its requests were rejected.

use super::Found;
use super::lease::{Lease, Leases};
use crate::front::name;
use crate::history::{History, Operation};
use crate::message::{Acquire, Answer, Lock, Request};
use crate::time::{SECOND, Time};

/// A little more than one round of the engine.
const RELEASED_WITHIN: Time = 3 * SECOND;

pub(super) fn check(history: &History, leases: &Leases, found: &mut Found) {
    for operation in &history.operations {
        let Some((told_at, answer)) = &operation.answer else { continue };
        match (&operation.request, answer) {
            (Request::Look(lock), Answer::Seen(seen)) => {
                for (client, token) in &seen.holders {
                    let is_told = leases.of_token(*lock, *token).next().is_some();
                    if !is_told && !may_hold(history, *client, *lock, *told_at) {
                        let what =
                            format!("client {client} holds {lock} with {token:?} at {told_at}");
                        found.add("refused is refused", what);
                    }
                }
            }
            (Request::Acquire(acquire), answer) => {
                let Some((lock, client)) = in_the_way(acquire, answer) else { continue };
                let mut told = leases
                    .iter()
                    .filter(|lease| lease.client == client && lease.claim.lock == lock);
                let is_told = told.any(|lease| may_last(history, lease, operation));
                if !is_told && !may_hold(history, client, lock, *told_at) {
                    let what = format!("client {client} holds {lock} at {told_at}");
                    found.add("over is over, refused is refused", what);
                }
            }
            _ => {}
        }
    }
    for (at, recovery) in &history.recoveries {
        for (number, (_, lock, client)) in &recovery.active {
            let is_told = leases.iter().any(|lease| lease.claim.id.number == *number);
            let lock = (0..history.plan.locks.len()).find(|n| name(*n) == *lock).unwrap_or(0);
            let client = client.parse().unwrap_or(0);
            if !is_told && !may_hold(history, client, lock, *at) {
                let what = format!("{number:?} of client {client} is there at {at}");
                found.add("refused is refused", what);
            }
        }
    }
}

/// Returns the lock that blocks an acquire, and its holder.
fn in_the_way(acquire: &Acquire, answer: &Answer) -> Option<(Lock, usize)> {
    match answer {
        Answer::Held(Some(client)) => Some((acquire.lock, *client)),
        Answer::Member { n, why } => match **why {
            Answer::Held(Some(client)) => Some((acquire.each().nth(*n)?.0, client)),
            _ => None,
        },
        _ => None,
    }
}

fn is_of_several(operation: &Operation) -> bool {
    matches!(&operation.request, Request::Acquire(acquire) if !acquire.others.is_empty())
}

/// Returns whether this lease could have been active when the request was sent, or later.
fn may_last(history: &History, lease: &Lease, operation: &Operation) -> bool {
    let sent_at = operation.sent_at;
    let latest = lease.latest.map(|at| at + history.frozen_within(lease.first_sent_at, sent_at));
    lease.over_at.is_none_or(|at| at >= sent_at) && latest.is_none_or(|at| at >= sent_at)
}

/// Returns whether an unanswered request of this client could have acquired the lock.
fn may_hold(history: &History, client: usize, lock: Lock, at: Time) -> bool {
    history.operations.iter().take_while(|operation| operation.sent_at <= at).any(|operation| {
        let is_about =
            matches!(&operation.request, Request::Acquire(acquire) if acquire.asks_for(lock));
        is_about && operation.client == client && may_have_been_done(history, operation, at)
    })
}

fn may_have_been_done(history: &History, operation: &Operation, at: Time) -> bool {
    match &operation.answer {
        None | Some((_, Answer::Unknown)) => operation.n_copies > 0,
        // A grant counts from the time of its request. Until the response arrives, no other response proves it.
        Some((told_at, Answer::Granted { .. })) if *told_at >= at => true,
        // One lease of a group ended before the response was sent. The others are released a moment later.
        Some((told_at, Answer::WaitOver)) if is_of_several(operation) => {
            let paused = history.paused_within(*told_at, at);
            operation.n_copies > 1 || at <= *told_at + RELEASED_WITHIN + paused
        }
        // One copy was rejected, but another might have arrived later.
        Some(_) => operation.n_copies > 1,
    }
}
