//! Give a lease back, or the grace period that followed it. Whoever is next gets the lock in the same step.

use super::proof::{check_active, prove};
use super::renew::find;
use crate::arena::Slot;
use crate::change::Change;
use crate::command::{Forgo, Release};
use crate::lease::{Ending, Lease};
use crate::outcome::{Outcome, Rejection};
use crate::request::{Fingerprint, Operation, Request};
use crate::transition::{End, Transition};

pub(crate) fn release(t: &mut Transition<'_>, release: &Release) -> Result<Outcome, Rejection> {
    t.limits.check_request_id(release.request_id.as_deref())?;
    let slot = prove(t, &release.proof, release.dialect)?;
    let request = release.request_id.as_ref().map(|id| request(t, slot, id));
    if let Some(request) = &request
        && find(t, slot, request)?.is_some()
    {
        return Ok(Outcome::Released(Box::new(t.view(slot))));
    }
    check_active(t, slot)?;
    let lock = t.state.leases[slot].lock;
    let mut view = t.view(slot);
    t.end(slot, End { request, ..End::new(Ending::Released, t.now) });
    view.end(Ending::Released, t.now);
    t.promote(lock);
    Ok(Outcome::Released(Box::new(view)))
}

/// The last owner does not want the lock back.
pub(crate) fn forgo(t: &mut Transition<'_>, forgo: &Forgo) -> Result<Outcome, Rejection> {
    t.limits.check_key(&forgo.lock)?;
    let lock = t.state.find_lock(&forgo.lock).ok_or(Rejection::NotOwner)?;
    t.settle(lock);
    let lapse = t.state.locks[lock].grace(t.now).ok_or(Rejection::NotOwner)?;
    if *t.state.owner(lapse.owner) != forgo.owner || lapse.dialect != forgo.dialect {
        return Err(Rejection::NotOwner);
    }
    t.record(Change::GraceForgone { lock: forgo.lock.clone() });
    t.promote(lock);
    Ok(Outcome::Forgone)
}

fn request(t: &Transition<'_>, slot: Slot<Lease>, id: &str) -> Request {
    let fingerprint = Fingerprint::new().number(t.state.leases[slot].number.0);
    Request { operation: Operation::Release, id: id.into(), fingerprint: fingerprint.done() }
}
