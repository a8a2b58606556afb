//! Checks that leases never end early, never end later than announced, and never become active again after their end.

use leasehold_server::engine::Expiry;

use super::Found;
use super::lease::{Lease, Leases, answer_about};
use crate::history::{History, Operation};
use crate::message::{Answer, Lock, Request};
use crate::plan::DELAY_MAX;
use crate::time::{MS, Time};

pub(super) fn check(history: &History, leases: &Leases, found: &mut Found) {
    for operation in &history.operations {
        let Some((told_at, answer)) = &operation.answer else { continue };
        match (&operation.request, answer) {
            (Request::Renew { claims, .. } | Request::Release { claims, .. }, _) => {
                for (n, claim) in claims.iter().enumerate() {
                    let about = answer_about(operation.answer.as_ref(), n);
                    let (Some(lease), Some((_, answer))) = (leases.get(claim), about) else {
                        continue;
                    };
                    changed(history, lease, operation, (*told_at, &answer), found);
                }
            }
            (Request::Look(lock), Answer::Seen(seen)) => {
                for (client, token) in &seen.holders {
                    for lease in leases.of_token(*lock, *token) {
                        late(history, lease, operation, found);
                        if lease.client != *client {
                            let told = format!("{:?} is shown as client {client}'s", lease.claim);
                            found.add("what is shown is true", told);
                        }
                    }
                }
                if seen.holders.is_empty() {
                    missing(*told_at, *lock, leases, operation, found);
                }
            }
            (Request::Acquire(acquire), Answer::Granted { claims, expiry }) => {
                for lease in claims.iter().filter_map(|claim| leases.get(claim)) {
                    if acquire.session.is_none() {
                        waited(history, lease, operation, *told_at, *expiry, found);
                    }
                    if lease.first_told_at < operation.sent_at {
                        late(history, lease, operation, found);
                    }
                }
            }
            (Request::KeepSession(_) | Request::CloseSession(_), Answer::NoSession) => {
                session_early(history, operation, *told_at, found);
            }
            _ => {}
        }
    }
}

/// Checks a response by which a lease was renewed or released, or reported as ended.
fn changed(
    history: &History,
    lease: &Lease,
    operation: &Operation,
    (told_at, answer): (Time, &Answer),
    found: &mut Found,
) {
    match answer {
        Answer::Over | Answer::NotYours | Answer::Spent => early(told_at, lease, operation, found),
        Answer::Renewed { .. } => late(history, lease, operation, found),
        Answer::Released if operation.request.request_id().is_none() => {
            late(history, lease, operation, found);
        }
        _ => {}
    }
}

/// Reports a lease that its owner was told has ended, although the owner could still rely on it.
fn early(told_at: Time, lease: &Lease, operation: &Operation, found: &mut Found) {
    if let Some(until) = lease.good_at(told_at)
        && lease.good.iter().any(|(promised_at, _)| *promised_at <= operation.sent_at)
    {
        found.add(
            "never early",
            format!("{:?} was good until {until}, over at {told_at}", lease.claim),
        );
    }
}

/// Reports a lock that was shown without a holder while an owner could rely on its lease.
fn missing(told_at: Time, lock: Lock, leases: &Leases, operation: &Operation, found: &mut Found) {
    for lease in leases.iter().filter(|lease| lease.claim.lock == lock) {
        let was_told = lease.good.iter().any(|(at, _)| *at <= operation.sent_at);
        if was_told && lease.good_at(operation.sent_at) > Some(told_at) {
            found.add("what is shown is true", format!("{:?} is not, at {told_at}", lease.claim));
        }
    }
}

/// Reports a lease that a response treats as active, although the request was sent after the lease's end.
fn late(history: &History, lease: &Lease, operation: &Operation, found: &mut Found) {
    let Operation { sent_at, request, .. } = operation;
    if lease.over_at.is_some_and(|at| at < *sent_at) {
        found.add("over is over", format!("{:?} at {sent_at}: {request:?}", lease.claim));
    }
    if let Some(latest) = lease.latest {
        let asked_at = lease.first_sent_at;
        let latest = latest + history.frozen_within(asked_at, *sent_at);
        if *sent_at > latest {
            let claim = lease.claim;
            found.add(
                "not too late",
                format!("{claim:?} ended by {latest}, alive at {sent_at}: {request:?}"),
            );
        }
    }
}

/// Checks that a lease was granted within the requested wait. The remaining time in the response and the TTL reveal
/// when it was granted.
fn waited(
    history: &History,
    lease: &Lease,
    operation: &Operation,
    told_at: Time,
    expiry: Option<Expiry>,
    found: &mut Found,
) {
    let (Some(expiry), Some(ttl)) = (expiry, lease.acquire.ttl_ms) else { return };
    let Expiry { in_ms, after_send_ms: left } = expiry;
    if in_ms > left {
        let claim = lease.claim;
        found.add(
            "time left",
            format!("{claim:?}: {in_ms} ms left, but only {left} ms after it was asked for"),
        );
    }
    // A repeated request counts from its own time, and a renewed lease from its renewal.
    if !lease.is_one_attempt || lease.good.len() > 1 {
        return;
    }
    let paused = history.paused_within(operation.sent_at, told_at) / MS;
    // A late copy of a request with a request id restarts the wait.
    let doubled = if operation.n_copies > 1 { DELAY_MAX / MS } else { 0 };
    let allowed = lease.acquire.wait_ms + doubled + paused + history.plan.turn_max() / MS;
    if left > ttl + allowed {
        let claim = lease.claim;
        found.add("a wait ends", format!("{claim:?}: {left} ms left of {ttl} after {allowed} ms"));
    }
}

/// Reports a session that was said to have ended while its owner could rely on it.
fn session_early(history: &History, operation: &Operation, told_at: Time, found: &mut Found) {
    let (Request::KeepSession(session) | Request::CloseSession(session)) = &operation.request
    else {
        return;
    };
    let mut promises = history.operations.iter().filter(|other| {
        let told = other.answer.as_ref().is_some_and(|(at, _)| *at <= operation.sent_at);
        let is_it = match (&other.request, &other.answer) {
            (Request::OpenSession(_), Some((_, Answer::SessionOpened { session: opened, .. }))) => {
                opened == session
            }
            (Request::KeepSession(kept), Some((_, Answer::SessionKept { .. }))) => kept == session,
            _ => false,
        };
        is_it
            && told
            && other.good_until > Some(told_at)
            && !history.was_restored_within(other.sent_at, told_at)
    });
    let closed = history.operations.iter().any(|other| {
        matches!(&other.request, Request::CloseSession(closed) if closed == session)
            && other.sent_at < told_at
            && !std::ptr::eq(other, operation)
    });
    let is_double = matches!(operation.request, Request::CloseSession(_)) && operation.n_copies > 1;
    if let Some(promise) = promises.next()
        && !closed
        && !is_double
    {
        let until = promise.good_until;
        found.add("never early", format!("a session was good until {until:?}, over at {told_at}"));
    }
}
