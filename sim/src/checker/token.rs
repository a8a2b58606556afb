//! Checks that the tokens of a lock are distinct and grow from grant to grant, and that lease numbers are never reused.

use std::collections::BTreeMap;

use leasehold_judge::Tokens;

use super::Found;
use super::lease::{Lease, Leases};
use crate::history::History;
use crate::message::{Answer, Request};

pub(super) fn check(history: &History, leases: &Leases, found: &mut Found) {
    for (number, token) in &leases.doubles {
        found
            .add("numbers are not reused", format!("{number:?} was granted again, with {token:?}"));
    }
    let mut by_token = BTreeMap::new();
    for lease in leases.iter() {
        if let Some(other) = by_token.insert((lease.claim.lock, lease.claim.token), lease.claim) {
            found.add("tokens are not reused", format!("{other:?} and {:?}", lease.claim));
        }
    }
    for lock in 0..history.plan.locks.len() {
        grow(leases.iter().filter(|lease| lease.claim.lock == lock), found);
    }
    for operation in &history.operations {
        let (Request::Look(lock), Some((at, Answer::Seen(seen)))) =
            (&operation.request, &operation.answer)
        else {
            continue;
        };
        for lease in leases.iter().filter(|lease| lease.claim.lock == *lock) {
            let token = lease.claim.token;
            if lease.first_sent_at > *at && token <= seen.last_token {
                found.add("tokens grow", format!("{token:?} after {:?} was seen", seen.last_token));
            }
            if lease.first_told_at < operation.sent_at && token > seen.last_token {
                found.add("tokens grow", format!("{:?} seen after {token:?}", seen.last_token));
            }
        }
    }
}

/// Checks that the token of each lease is higher than all tokens of its lock that clients knew before the request.
fn grow<'a>(leases: impl Iterator<Item = &'a Lease>, found: &mut Found) {
    let mut events = Vec::new();
    for lease in leases {
        events.extend([(lease.first_sent_at, false, lease), (lease.first_told_at, true, lease)]);
    }
    // At the same time, no response is certainly before a request.
    events.sort_by_key(|(at, is_told, lease)| (*at, *is_told, lease.claim.id.number));
    let (mut tokens, mut known) = (Tokens::default(), BTreeMap::new());
    for (_, is_told, Lease { claim, .. }) in events {
        if !is_told {
            known.insert(claim.id.number, tokens.highest());
            continue;
        }
        let before = known.get(&claim.id.number).copied().unwrap_or_default();
        if !tokens.granted(claim.token.get(), before) {
            found.add("tokens grow", format!("token {before} was before {claim:?}"));
        }
    }
}
