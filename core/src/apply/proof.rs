//! Whose lease is it?

use crate::arena::Slot;
use crate::command::{Proof, Prove};
use crate::lease::{Lease, Phase};
use crate::lock::Lock;
use crate::mutant;
use crate::name::{Dialect, LockKey};
use crate::outcome::Rejection;
use crate::transition::Transition;
use crate::view::LeaseView;

/// The lease that `proof` proves to be the client's own, on a settled lock. It may be over.
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

/// The active lease that `proof` proves to be the client's own.
pub(crate) fn active(
    t: &mut Transition<'_>,
    proof: &Proof,
    dialect: Dialect,
) -> Result<Slot<Lease>, Rejection> {
    let slot = prove(t, proof, dialect)?;
    check_active(t, slot)?;
    Ok(slot)
}

/// That a lease which was just proven is active.
pub(crate) fn check_active(t: &mut Transition<'_>, slot: Slot<Lease>) -> Result<(), Rejection> {
    let lease = &t.state.leases[slot];
    if lease.is_active() && t.state.overdue(lease, t.now).is_some() {
        // It was granted just now, with a ttl of nothing.
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
        // Nothing has fallen due anywhere: the lease is what it says it is.
        return Ok(slot);
    }
    t.settle(lock);
    if t.state.find_lease(number) == Some(slot) && t.state.is_queued(slot) {
        t.expire_if_due(slot);
        t.promote_stirred();
    }
    // A wait that was over leaves nothing behind.
    t.state.find_lease(number).ok_or(Rejection::NoSuchLease)
}

fn settled_lock(t: &mut Transition<'_>, key: &LockKey) -> Result<Slot<Lock>, Rejection> {
    t.limits.check_key(key)?;
    let lock = t.state.find_lock(key).ok_or(Rejection::NotOwner)?;
    t.settle(lock);
    Ok(lock)
}
