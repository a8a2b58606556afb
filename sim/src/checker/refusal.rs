//! An answer that says "nothing was done" is true: nobody is shown as a holder who was only ever refused.

use super::Found;
use super::lease::Leases;
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
                let is_told = leases
                    .iter()
                    .any(|lease| lease.client == *client && lease.claim.lock == acquire.lock);
                if !is_told && !may_hold(history, *client, acquire.lock, *told_at) {
                    let what = format!("client {client} holds {} at {told_at}", acquire.lock);
                    found.add("refused is refused", what);
                }
            }
            _ => {}
        }
    }
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
