//! Checks request ids: a request has one effect, however often it is repeated.

use std::collections::BTreeMap;

use super::Found;
use super::lease::{Leases, answer_about};
use crate::history::History;
use crate::message::{Answer, Claim, Request};
use crate::time::Time;

pub(super) fn check(history: &History, leases: &Leases, found: &mut Found) {
    acquired_once(history, leases, found);
    proof_is_needed(history, leases, found);
}

/// Checks that once a repeated request was granted a lease, all its responses contain that lease, or report its end.
fn acquired_once(history: &History, leases: &Leases, found: &mut Found) {
    let mut told: BTreeMap<(usize, u64), (Time, Vec<Claim>)> = BTreeMap::new();
    let mut answered: Vec<_> = history.operations.iter().filter(|op| op.answer.is_some()).collect();
    answered.sort_by_key(|op| op.answer.as_ref().map(|(at, _)| *at));
    for operation in answered {
        let (Request::Acquire(acquire), Some((at, answer))) =
            (&operation.request, &operation.answer)
        else {
            continue;
        };
        let Some(id) = acquire.request_id else { continue };
        let first = told.get(&(operation.client, id));
        if let Some((first_at, claims)) =
            first.filter(|(first_at, _)| *first_at < operation.sent_at)
            && !history.was_restored_within(*first_at, *at)
        {
            let is_same = match answer {
                Answer::Granted { claims: again, .. } => again == claims,
                Answer::Spent => true,
                Answer::Busy | Answer::Overloaded | Answer::Stopping | Answer::Unknown => true,
                _ => false,
            };
            if !is_same {
                let what =
                    format!("{id} of client {} gave {claims:?}, then {answer:?}", operation.client);
                found.add("a request id is applied once", what);
            }
            // A group is reported as spent as soon as one of its leases is.
            let is_good = |claim| leases.get(claim).is_some_and(|l| l.good_at(*at).is_some());
            if *answer == Answer::Spent && claims.iter().all(is_good) {
                found.add("never early", format!("{claims:?} are said to be spent at {at}"));
            }
        }
        if let Answer::Granted { claims, .. } = answer {
            told.entry((operation.client, id)).or_insert((*at, claims.clone()));
        }
    }
}

/// Checks that no lease is renewed or released with a wrong token.
fn proof_is_needed(history: &History, leases: &Leases, found: &mut Found) {
    for operation in &history.operations {
        let (Request::Renew { claims, .. } | Request::Release { claims, .. }) = &operation.request
        else {
            continue;
        };
        for (n, claim) in claims.iter().enumerate() {
            let answer = answer_about(operation.answer.as_ref(), n);
            let succeeded = matches!(answer, Some((_, Answer::Renewed { .. } | Answer::Released)));
            if succeeded && leases.get(claim).is_none_or(|lease| lease.client != operation.client) {
                found.add("a proof is needed", format!("{:?} succeeded", operation.request));
            }
        }
    }
}
