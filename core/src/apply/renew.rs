//! Moves the deadline of an active lease. A renewal never creates a new token.

use super::proof::{active, check_active, prove};
use super::replay::{self, Replay};
use crate::arena::Slot;
use crate::change::Change;
use crate::command::{Amend, Extend, Renew, RenewAll};
use crate::lease::{Lease, Phase};
use crate::mutant;
use crate::outcome::{Limit, Rejection};
use crate::request::{Fingerprint, Operation, Request};
use crate::state::Scope;
use crate::time::Timestamp;
use crate::transition::Transition;
use crate::view::LeaseView;

pub(crate) fn renew(t: &mut Transition<'_>, renew: &Renew) -> Result<Box<LeaseView>, Rejection> {
    check_extend(t, renew.extend)?;
    t.limits.check_request_id(renew.request_id.as_deref())?;
    let slot = prove(t, &renew.proof, renew.dialect)?;
    let request = renew.request_id.as_ref().map(|id| request(t, slot, renew.extend, id));
    if let Some(request) = &request {
        match find(t, slot, request)? {
            Some(Replay::Active(slot)) => return Ok(Box::new(t.view(slot))),
            Some(Replay::Ended(how)) => return Err(Rejection::RequestSpent(how)),
            Some(Replay::Queued(_)) | None => {}
        }
    }
    check_active(t, slot)?;
    let deadline = extended(t, slot, renew.extend)?;
    make_room(t, slot, request.is_some());
    let lease = t.state.leases[slot].number;
    t.record(Change::Renewed { lease, at: t.now, deadline, request });
    Ok(Box::new(t.view(slot)))
}

/// Renews all of these leases or none. The rejection names the first that cannot be renewed.
pub(crate) fn renew_all(
    t: &mut Transition<'_>,
    renew: &RenewAll,
) -> Result<Vec<LeaseView>, Rejection> {
    t.limits.check_group(renew.proofs.len())?;
    check_extend(t, renew.extend)?;
    let mut renewals = Vec::with_capacity(renew.proofs.len());
    for (n, proof) in renew.proofs.iter().enumerate() {
        let renewal = active(t, proof, renew.dialect)
            .and_then(|slot| Ok((slot, extended(t, slot, renew.extend)?)));
        renewals.push(renewal.map_err(|why| Rejection::Member { n, why: Box::new(why) })?);
        if mutant!(GroupRenewedInPart) {
            put_off(t, renewals.last().copied());
        }
    }
    put_off(t, renewals.iter().copied());
    Ok(renewals.into_iter().map(|(slot, _)| t.view(slot)).collect())
}

fn put_off(t: &mut Transition<'_>, renewals: impl IntoIterator<Item = (Slot<Lease>, Timestamp)>) {
    for (slot, deadline) in renewals {
        let lease = t.state.leases[slot].number;
        t.record(Change::Renewed { lease, at: t.now, deadline, request: None });
    }
}

fn check_extend(t: &Transition<'_>, extend: Extend) -> Result<(), Rejection> {
    let (Extend::AtLeast(by) | Extend::Exactly(by) | Extend::By(by)) = extend;
    t.limits.within(Limit::Ttl, by <= t.limits.ttl_max)
}

/// Returns the new deadline of a renewed lease.
fn extended(t: &Transition<'_>, slot: Slot<Lease>, extend: Extend) -> Result<Timestamp, Rejection> {
    let deadline = t.state.leases[slot].deadline;
    Ok(match extend {
        Extend::AtLeast(span) => deadline.max(t.now + span),
        Extend::Exactly(span) => t.now + span,
        Extend::By(span) => {
            // Repeated renewals cannot extend a lease beyond the maximum TTL from now.
            let later = deadline + span;
            let is_short = later.finite().is_none_or(|at| at.since(t.now) <= t.limits.ttl_max);
            t.limits.within(Limit::Ttl, is_short)?;
            later
        }
    })
}

/// Changes the TTL of later grants. An active lease keeps its current deadline.
pub(crate) fn amend(t: &mut Transition<'_>, amend: &Amend) -> Result<Box<LeaseView>, Rejection> {
    t.limits.within(Limit::Ttl, amend.ttl <= t.limits.ttl_max)?;
    let slot = prove(t, &amend.proof, amend.dialect)?;
    if let Phase::Ended(how) = t.phase(slot) {
        return Err(Rejection::Ended(how));
    }
    // The leases of a waiting group are granted together, with the same TTL.
    let is_queued = t.state.is_queued(slot);
    let together = if is_queued { t.state.together(slot) } else { vec![slot] };
    for member in together {
        let lease = t.state.leases[member].number;
        t.record(Change::Amended { lease, ttl: Some(amend.ttl) });
    }
    Ok(Box::new(t.view(slot)))
}

fn request(t: &Transition<'_>, slot: Slot<Lease>, extend: Extend, id: &str) -> Request {
    let (kind, by) = match extend {
        Extend::AtLeast(by) => (0, by),
        Extend::Exactly(by) => (1, by),
        Extend::By(by) => (2, by),
    };
    let fingerprint =
        Fingerprint::new().number(t.state.leases[slot].number.0).number(kind).number(by.as_nanos());
    Request { operation: Operation::Renew, id: id.into(), fingerprint: fingerprint.done() }
}

/// Finds an earlier request with this id of the owner of the lease in `slot`.
pub(crate) fn find(
    t: &mut Transition<'_>,
    slot: Slot<Lease>,
    request: &Request,
) -> Result<Option<Replay>, Rejection> {
    let lease = &t.state.leases[slot];
    let namespace = t.state.namespaces.get(t.state.locks[lease.lock].namespace).name.clone();
    let owner = t.state.owner(lease.owner).clone();
    let scope = Scope {
        namespace: &namespace,
        owner: &owner,
        dialect: lease.dialect,
        operation: request.operation,
        id: &request.id,
    };
    replay::find(t, &scope, request.fingerprint)
}

/// Forgets the oldest renewal of a lease if it remembers too many requests, or if all request ids together use their
/// budget. So a renewal is never rejected because of the budget: its id replaces an older one.
fn make_room(t: &mut Transition<'_>, slot: Slot<Lease>, is_needed: bool) {
    let requests = t.state.leases[slot].requests();
    let is_room = t.state.footprint.requests < t.limits.requests_total_bytes_max;
    if !is_needed || (is_room && requests.len() < t.limits.lease_requests_max) {
        return;
    }
    let Some(oldest) = requests.iter().find(|request| request.operation == Operation::Renew) else {
        return;
    };
    let (operation, id) = (oldest.operation, oldest.id.clone());
    let lease = t.state.leases[slot].number;
    t.record(Change::RequestForgotten { lease, operation, id });
}
