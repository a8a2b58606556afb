//! Give a lease back, or the grace period that followed it. Whoever is next gets the lock in the same step.

use super::proof::{check_active, prove};
use super::renew::find;
use crate::arena::Slot;
use crate::change::Change;
use crate::command::{Proof, Release};
use crate::lease::{Ending, Lease};
use crate::mutant;
use crate::name::Dialect;
use crate::outcome::{Rejection, Released};
use crate::request::{Fingerprint, Operation, Request};
use crate::transition::{End, Transition};

pub(crate) fn release(t: &mut Transition<'_>, release: &Release) -> Result<Released, Rejection> {
    t.limits.check_request_id(release.request_id.as_deref())?;
    let slot = match prove(t, &release.proof, release.dialect) {
        _ if mutant!(ReleaseByName) => any_holder(t, &release.proof)?,
        Err(Rejection::NotOwner) => return forgo(t, &release.proof, release.dialect),
        proven => proven?,
    };
    let request = release.request_id.as_ref().map(|id| request(t, slot, id));
    if let Some(request) = &request
        && find(t, slot, request)?.is_some()
    {
        return Ok(Released::Lease(Box::new(t.view(slot))));
    }
    check_active(t, slot)?;
    let lock = t.state.leases[slot].lock;
    let mut view = t.view(slot);
    t.end(slot, End { request, ..End::new(Ending::Released, t.now) });
    view.end(Ending::Released, t.now);
    t.promote(lock);
    Ok(Released::Lease(Box::new(view)))
}

/// Whoever has the lock, whosever it is: what no release may do.
fn any_holder(t: &Transition<'_>, proof: &Proof) -> Result<Slot<Lease>, Rejection> {
    let Proof::Id { lock: Some(key), .. } = proof else { return Err(Rejection::NotOwner) };
    let lock = t.state.find_lock(key).ok_or(Rejection::NotOwner)?;
    t.state.holders(lock).next().ok_or(Rejection::NotOwner)
}

/// The last owner has no lease any more and does not want the lock back either.
fn forgo(t: &mut Transition<'_>, proof: &Proof, dialect: Dialect) -> Result<Released, Rejection> {
    let Proof::Owner { lock: key, owner } = proof else { return Err(Rejection::NotOwner) };
    let lock = t.state.find_lock(key).ok_or(Rejection::NotOwner)?;
    let lapse = t.state.locks[lock].grace(t.now).ok_or(Rejection::NotOwner)?;
    if t.state.owner(lapse.owner) != owner || lapse.dialect != dialect {
        return Err(Rejection::NotOwner);
    }
    t.record(Change::GraceForgone { lock: key.clone() });
    t.promote(lock);
    Ok(Released::Grace)
}

fn request(t: &Transition<'_>, slot: Slot<Lease>, id: &str) -> Request {
    let fingerprint = Fingerprint::new().number(t.state.leases[slot].number.0);
    Request { operation: Operation::Release, id: id.into(), fingerprint: fingerprint.done() }
}
