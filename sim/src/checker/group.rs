//! Checks groups of locks: a response contains all of them, and they were granted at the same time.

use super::Found;
use super::lease::{Lease, Leases};
use crate::history::{History, Operation};
use crate::message::{Answer, Claim, Request};
use crate::time::Time;

pub(super) fn check(history: &History, leases: &Leases, found: &mut Found) {
    for operation in &history.operations {
        let (Request::Acquire(acquire), Some((_, Answer::Granted { claims, .. }))) =
            (&operation.request, &operation.answer)
        else {
            continue;
        };
        let locks: Vec<_> = acquire.each().map(|(lock, _)| lock).collect();
        told_whole(operation, &locks, claims, found);
        // A client that sent the request several times might have been granted the locks several times.
        let first = claims.first().and_then(|claim| leases.get(claim));
        if claims.len() > 1 && first.is_some_and(|lease| lease.is_one_attempt) {
            at_one_instant(history, leases, claims, found);
        }
    }
}

/// Checks that there is a lease for each lock, in the order of the request, with consecutive numbers.
fn told_whole(operation: &Operation, locks: &[usize], claims: &[Claim], found: &mut Found) {
    let is_whole = claims.iter().map(|claim| claim.lock).eq(locks.iter().copied());
    let follows = |pair: &[Claim]| pair[0].id.number.0 + 1 == pair[1].id.number.0;
    if !is_whole || !claims.windows(2).all(follows) {
        let client = operation.client;
        found.add("told whole", format!("client {client} wanted {locks:?} and got {claims:?}"));
    }
}

/// Checks that once one lease was seen as granted, all others are granted: a client that reads the lock afterwards sees
/// the lease's token or a later one.
fn at_one_instant(history: &History, leases: &Leases, claims: &[Claim], found: &mut Found) {
    let Some((seen_at, seen)) = first_seen(history, leases, claims) else { return };
    for other in claims.iter().filter(|claim| **claim != seen) {
        let looks = history.operations.iter().filter(|operation| operation.sent_at > seen_at);
        for look in looks {
            let (Request::Look(lock), Some((at, Answer::Seen(view)))) =
                (&look.request, &look.answer)
            else {
                continue;
            };
            if *lock == other.lock && view.last_token < other.token {
                found.add("all at once", format!("{seen:?} at {seen_at}, not {other:?} at {at}"));
            }
        }
        let passed = |lease: &&Lease| {
            let Claim { lock, token, .. } = lease.claim;
            lock == other.lock && token < other.token && lease.first_sent_at > seen_at
        };
        if let Some(late) = leases.iter().find(passed) {
            let late = late.claim;
            found.add("all at once", format!("{seen:?} at {seen_at}, then {late:?}, {other:?}"));
        }
    }
}

/// Returns when the first of these leases was known to be granted, from any client's response.
fn first_seen(history: &History, leases: &Leases, claims: &[Claim]) -> Option<(Time, Claim)> {
    let looked = history.operations.iter().filter_map(|operation| {
        let (Request::Look(lock), Some((at, Answer::Seen(view)))) =
            (&operation.request, &operation.answer)
        else {
            return None;
        };
        let is_seen = |claim: &&Claim| claim.lock == *lock && view.last_token >= claim.token;
        claims.iter().find(is_seen).map(|claim| (*at, *claim))
    });
    let told = claims.iter().filter_map(|claim| Some((leases.get(claim)?.first_told_at, *claim)));
    looked.chain(told).min_by_key(|(at, _)| *at)
}
