//! Move the deadline of an active lease. A renewal never mints a token.

use super::proof::{check_active, prove};
use super::replay::{self, Replay};
use crate::arena::Slot;
use crate::change::Change;
use crate::command::{Amend, Extend, Renew};
use crate::lease::{Lease, Phase};
use crate::outcome::{Limit, Rejection};
use crate::request::{Fingerprint, Operation, Request};
use crate::state::Scope;
use crate::transition::Transition;
use crate::view::LeaseView;

pub(crate) fn renew(t: &mut Transition<'_>, renew: &Renew) -> Result<Box<LeaseView>, Rejection> {
    let (Extend::AtLeast(by) | Extend::Exactly(by)) = renew.extend;
    t.limits.within(Limit::Ttl, by <= t.limits.ttl_max)?;
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
    let Lease { number, deadline, .. } = t.state.leases[slot];
    let deadline = match renew.extend {
        Extend::AtLeast(span) => deadline.max(t.now + span),
        Extend::Exactly(span) => t.now + span,
    };
    make_room(t, slot, request.is_some());
    t.record(Change::Renewed { lease: number, at: t.now, deadline, request });
    Ok(Box::new(t.view(slot)))
}

/// Change what a later grant lasts. A lease that has its grant keeps the deadline it has.
pub(crate) fn amend(t: &mut Transition<'_>, amend: &Amend) -> Result<Box<LeaseView>, Rejection> {
    t.limits.within(Limit::Ttl, amend.ttl <= t.limits.ttl_max)?;
    let slot = prove(t, &amend.proof, amend.dialect)?;
    if let Phase::Ended(how) = t.phase(slot) {
        return Err(Rejection::Ended(how));
    }
    let lease = t.state.leases[slot].number;
    t.record(Change::Amended { lease, ttl: Some(amend.ttl) });
    Ok(Box::new(t.view(slot)))
}

fn request(t: &Transition<'_>, slot: Slot<Lease>, extend: Extend, id: &str) -> Request {
    let (kind, by) = match extend {
        Extend::AtLeast(by) => (0, by),
        Extend::Exactly(by) => (1, by),
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

/// A lease that lives long is renewed often: its oldest renewals are forgotten. A renewal is never refused for want of
/// room: if all request ids together take up too much, it takes the place of the one before.
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
