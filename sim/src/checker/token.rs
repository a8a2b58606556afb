//! Checks that the tokens of a lock are distinct and grow from grant to grant, and that lease numbers are never reused.

use std::collections::BTreeMap;

use super::Found;
use super::lease::Leases;
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
    for (n, earlier) in leases.iter().enumerate() {
        for later in leases.iter().skip(n + 1).chain(leases.iter().take(n)) {
            let is_later = earlier.claim.lock == later.claim.lock
                && earlier.first_told_at < later.first_sent_at;
            if is_later && earlier.claim.token >= later.claim.token {
                let (earlier, later) = (earlier.claim, later.claim);
                found.add("tokens grow", format!("{earlier:?} was before {later:?}"));
            }
        }
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
