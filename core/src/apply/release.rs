//! Releases a lease, or ends the grace period after it early. The next waiter is granted the lock in the same step.

use super::proof::{active, check_active, prove};
use super::renew::find;
use crate::arena::Slot;
use crate::change::Change;
use crate::command::{GiveUp, Proof, Release, ReleaseAll};
use crate::lease::{Ending, Lease};
use crate::name::{Dialect, LockKey, Owner};
use crate::outcome::Rejection;
use crate::request::{Fingerprint, Operation, Request};
use crate::transition::{End, Transition};
use crate::view::LeaseView;

pub(crate) fn release(
    t: &mut Transition<'_>,
    release: &Release,
) -> Result<Box<LeaseView>, Rejection> {
    t.limits.check_request_id(release.request_id.as_deref())?;
    let slot = match prove(t, &release.proof, release.dialect) {
        _ if crate::mutant!(ReleaseByName) => any_holder(t, &release.proof)?,
        proven => proven?,
    };
    let request = release.request_id.as_ref().map(|id| request(t, slot, id));
    if let Some(request) = &request
        && find(t, slot, request)?.is_some()
    {
        return Ok(Box::new(t.view(slot)));
    }
    check_active(t, slot)?;
    let lock = t.state.leases[slot].lock;
    let mut view = t.view(slot);
    t.end(slot, End { request, ..End::new(Ending::Released, t.now) });
    view.end(Ending::Released, t.now);
    t.promote(lock);
    Ok(Box::new(view))
}

/// Releases those leases that are still active. Waiters are granted locks only after all leases have ended, because a
/// group might wait for several of these locks.
pub(crate) fn release_all(
    t: &mut Transition<'_>,
    release: &ReleaseAll,
) -> Result<Vec<Result<LeaseView, Rejection>>, Rejection> {
    t.limits.check_group(release.proofs.len())?;
    let released = release.proofs.iter().map(|proof| {
        let slot = active(t, proof, release.dialect)?;
        let mut view = t.view(slot);
        t.stirred.push_back(t.state.leases[slot].lock);
        t.end(slot, End::new(Ending::Released, t.now));
        view.end(Ending::Released, t.now);
        Ok(view)
    });
    let released = released.collect();
    t.promote_stirred();
    Ok(released)
}

/// Returns any holder of the lock. Implements the mutant `ReleaseByName`.
fn any_holder(t: &Transition<'_>, proof: &Proof) -> Result<Slot<Lease>, Rejection> {
    let Proof::Id { lock: Some(key), .. } = proof else { return Err(Rejection::NotOwner) };
    let lock = t.state.find_lock(key).ok_or(Rejection::NotOwner)?;
    t.state.holders(lock).next().ok_or(Rejection::NotOwner)
}

pub(crate) fn give_up(t: &mut Transition<'_>, asked: GiveUp) -> Result<(), Rejection> {
    let GiveUp { lock, owner, dialect } = asked;
    let proof = Proof::Owner { lock: lock.clone(), owner: owner.clone() };
    match release(t, &Release { proof, dialect, request_id: None }) {
        Err(Rejection::NotOwner) => forgo(t, lock, &owner, dialect),
        released => released.map(drop),
    }
}

/// Ends the grace period early, on behalf of the last owner. Works even after the grace period, as long as no other
/// owner has acquired the lock.
fn forgo(
    t: &mut Transition<'_>,
    key: LockKey,
    owner: &Owner,
    dialect: Dialect,
) -> Result<(), Rejection> {
    let lock = t.state.find_lock(&key).ok_or(Rejection::NotOwner)?;
    let owner = t.state.owners.find(owner).ok_or(Rejection::NotOwner)?;
    let lapse = t.state.locks[lock].lapse.as_deref();
    if !lapse.is_some_and(|lapse| lapse.is_of(owner, dialect)) {
        return Err(Rejection::NotOwner);
    }
    t.record(Change::GraceForgone { lock: key });
    t.promote(lock);
    Ok(())
}

fn request(t: &Transition<'_>, slot: Slot<Lease>, id: &str) -> Request {
    let fingerprint = Fingerprint::new().number(t.state.leases[slot].number.0);
    Request { operation: Operation::Release, id: id.into(), fingerprint: fingerprint.done() }
}
