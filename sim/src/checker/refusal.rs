//! An answer that says "nothing was done" is true: nobody is shown as a holder who was only ever refused.

use super::Found;
use super::lease::{Lease, Leases};
use crate::front::name;
use crate::history::{History, Operation};
use crate::message::{Answer, Lock, Request};
use crate::time::Time;

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
            (Request::Acquire(acquire), Answer::Held(Some(client))) => {
                let lock = acquire.lock;
                let mut told = leases
                    .iter()
                    .filter(|lease| lease.client == *client && lease.claim.lock == lock);
                let is_told = told.any(|lease| may_last(history, lease, operation));
                if !is_told && !may_hold(history, *client, lock, *told_at) {
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

/// Could this lease have been active when the question was asked, or after?
fn may_last(history: &History, lease: &Lease, operation: &Operation) -> bool {
    let sent_at = operation.sent_at;
    let latest = lease.latest.map(|at| at + history.frozen_within(lease.first_sent_at, sent_at));
    lease.over_at.is_none_or(|at| at >= sent_at) && latest.is_none_or(|at| at >= sent_at)
}

/// Could anything this client asked for, and was not told of, have given it the lock?
fn may_hold(history: &History, client: usize, lock: Lock, at: Time) -> bool {
    history.operations.iter().take_while(|operation| operation.sent_at <= at).any(|operation| {
        let is_about =
            matches!(&operation.request, Request::Acquire(acquire) if acquire.lock == lock);
        is_about && operation.client == client && may_have_been_done(operation, at)
    })
}

fn may_have_been_done(operation: &Operation, at: Time) -> bool {
    match &operation.answer {
        None | Some((_, Answer::Unknown)) => operation.n_copies > 0,
        // A grant counts from when it was sent; until it is told nobody knows of it.
        Some((told_at, Answer::Granted { .. })) if *told_at >= at => true,
        // One copy was refused, but another may have come later.
        Some(_) => operation.n_copies > 1,
    }
}
