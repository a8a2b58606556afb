//! Checks the proof that a lease belongs to the client.

use crate::arena::Slot;
use crate::command::{Proof, Prove};
use crate::lease::{Lease, Phase};
use crate::lock::Lock;
use crate::mutant;
use crate::name::{Dialect, LockKey};
use crate::outcome::Rejection;
use crate::transition::Transition;
use crate::view::LeaseView;

/// Returns the lease that `proof` identifies, on a settled lock. The lease might have ended.
pub(crate) fn prove(
    t: &mut Transition<'_>,
    proof: &Proof,
    dialect: Dialect,
) -> Result<Slot<Lease>, Rejection> {
    match proof {
        Proof::Id { id, owner, token, lock } => {
            t.limits.check_owner(owner)?;
            let slot = t.state.find_lease(id.number).ok_or(Rejection::NoSuchLease)?;
            let lease = &t.state.leases[slot];
            if !lease.secret.matches(&id.secret) {
                return Err(Rejection::NoSuchLease);
            }
            let is_right = t.state.owner(lease.owner) == owner
                && lease.dialect == dialect
                && (mutant!(RenewWithoutToken) || token.is_none_or(|token| token == lease.token))
                && lock.as_ref().is_none_or(|lock| t.state.is_named(lease.lock, lock));
            if is_right { settled(t, slot) } else { Err(Rejection::NotOwner) }
        }
        Proof::Number { number, principal } => {
            let slot = t.state.find_lease(*number).ok_or(Rejection::NoSuchLease)?;
            let lease = &t.state.leases[slot];
            if lease.dialect != dialect {
                return Err(Rejection::NoSuchLease);
            }
            let asked = &t.state.owner(lease.owner).principal;
            let is_right = principal.as_ref().is_none_or(|principal| principal == asked);
            if is_right { settled(t, slot) } else { Err(Rejection::NotOwner) }
        }
        Proof::Owner { lock, owner } => {
            t.limits.check_owner(owner)?;
            let lock = settled_lock(t, lock)?;
            t.held_by(lock, owner, dialect).ok_or(Rejection::NotOwner)
        }
        Proof::Session { lock, session, principal } => {
            let session = super::session::own(t, session, dialect, principal.as_deref())?;
            let lock = settled_lock(t, lock)?;
            let mut holders = t.state.holders(lock);
            holders
                .find(|holder| t.state.leases[*holder].session() == Some(session))
                .ok_or(Rejection::NotOwner)
        }
    }
}

pub(crate) fn show(t: &mut Transition<'_>, asked: &Prove) -> Result<Box<LeaseView>, Rejection> {
    let slot = active(t, &asked.proof, asked.dialect)?;
    Ok(Box::new(t.view(slot)))
}

/// Returns the lease that `proof` identifies, if it is active.
pub(crate) fn active(
    t: &mut Transition<'_>,
    proof: &Proof,
    dialect: Dialect,
) -> Result<Slot<Lease>, Rejection> {
    let slot = prove(t, proof, dialect)?;
    check_active(t, slot)?;
    Ok(slot)
}

/// Checks that a lease is active, after its proof was checked.
pub(crate) fn check_active(t: &mut Transition<'_>, slot: Slot<Lease>) -> Result<(), Rejection> {
    let lease = &t.state.leases[slot];
    if lease.is_active() && t.state.overdue(lease, t.now).is_some() {
        // It was granted in this command, with a TTL of zero.
        t.settle(lease.lock);
    }
    match t.phase(slot) {
        Phase::Active => Ok(()),
        Phase::Waiting | Phase::Parked => Err(Rejection::StillWaiting),
        Phase::Ended(how) => Err(Rejection::Ended(how)),
    }
}

fn settled(t: &mut Transition<'_>, slot: Slot<Lease>) -> Result<Slot<Lease>, Rejection> {
    let Lease { lock, number, phase, .. } = t.state.leases[slot];
    if phase == Phase::Active && !t.state.is_behind(t.now) {
        // No deadline has passed anywhere, so the phase is accurate.
        return Ok(slot);
    }
    t.settle(lock);
    if t.state.find_lease(number) == Some(slot) && t.state.is_queued(slot) {
        t.expire_if_due(slot);
        t.promote_stirred();
    }
    // A wait that has ended is not remembered.
    t.state.find_lease(number).ok_or(Rejection::NoSuchLease)
}

fn settled_lock(t: &mut Transition<'_>, key: &LockKey) -> Result<Slot<Lock>, Rejection> {
    t.limits.check_key(key)?;
    let lock = t.state.find_lock(key).ok_or(Rejection::NotOwner)?;
    t.settle(lock);
    Ok(lock)
}
