//! What each question needs: a line for every kind there is.
//!
//! A question that is not here cannot be asked by a handler.

use leasehold_core::{
    AcquireAll, Cancel, CloseSession, EndSession, GiveUp, KeepSession, LockKey, Maintain,
    OpenSession, Proof, Release, ReleaseAll, Renew, RenewAll, Revoke, Target,
};

use super::{Caller, Denied, Right};
use crate::backup::TakeBackup;
use crate::dialect::files::{ToRead, ToWrite};
use crate::engine::{
    Enqueue, Interest, ListHoldings, ListLeases, ListLocks, ListSessions, Probe, ReadLease,
    ReadLeases, ReadLock, ReadMaintenance, ReadSession, Take, WaitFor, WaitForAll, WatchLease,
};
use crate::store::history::Asked;

/// Something for which a right is needed.
pub(crate) trait Governed {
    /// Says why not; or takes out of the answer what the caller may not see.
    fn govern(&mut self, caller: &Caller) -> Result<(), Denied>;
}

/// Something for which its own proof is enough.
pub(crate) trait Own {}

macro_rules! governed {
    ($($ask:ty: |$asked:ident, $caller:ident| $check:expr;)*) => {$(
        impl Governed for $ask {
            fn govern(&mut self, $caller: &Caller) -> Result<(), Denied> {
                let $asked = self;
                $check
            }
        }
    )*};
}

macro_rules! own {
    ($($ask:ty),* $(,)?) => {$(impl Own for $ask {})*};
}

governed! {
    Take: |asked, caller| caller.check(caller.to_take(), &asked.0.lock);
    WaitFor: |asked, caller| caller.check(caller.to_take(), &asked.acquire.lock);
    WaitForAll: |asked, caller| each(&asked.acquire, caller);
    Enqueue: |asked, caller| caller.check(caller.to_take(), &asked.acquire.lock);
    Renew: |asked, caller| held(&asked.proof, caller);
    RenewAll: |asked, caller| asked.proofs.iter().try_for_each(|proof| held(proof, caller));
    Revoke: |asked, caller| revoke(&asked.target, caller);
    OpenSession: |asked, caller| open(asked, caller);
    ReadLock: |asked, caller| caller.check(caller.to_look(), &asked.key);
    ListLocks: |asked, caller| list(asked, caller.to_look(), caller);
    Interest: |asked, caller| match asked {
        Interest::Namespace(namespace) => caller.check_somewhere(Right::Read, Some(namespace)),
        Interest::Lock(lock) => caller.check(Right::Read, lock),
    };
    Asked: |asked, caller| history(asked, caller);
    ListLeases: |_asked, caller| caller.check_somewhere(Right::Read, None);
    ReadLeases: |_asked, caller| caller.check_somewhere(Right::Read, None);
    ListHoldings: |_asked, caller| caller.check_somewhere(Right::Revoke, None);
    ListSessions: |_asked, caller| caller.check_admin();
    EndSession: |_asked, caller| caller.check_admin();
    Maintain: |_asked, caller| caller.check_admin();
    ReadMaintenance: |_asked, caller| caller.check_admin();
    TakeBackup: |_asked, caller| caller.check_admin();
    ToRead: |_asked, _caller| Ok(());
    ToWrite: |_asked, _caller| Ok(());
}

own! {
    Release, ReleaseAll, Cancel, GiveUp, KeepSession, CloseSession, ReadSession, WatchLease,
    // Which lock a lease is on has to be known before it can be said who may see it.
    ReadLease,
    // Nothing is learnt by it.
    Probe,
}

/// A list shows what its caller has this right on, and is for those who have it anywhere.
pub(super) fn list(asked: &mut ListLocks, right: Right, caller: &Caller) -> Result<(), Denied> {
    caller.check_somewhere(right, Some(&(&*asked.0.namespace).into()))
}

fn each(acquire: &AcquireAll, caller: &Caller) -> Result<(), Denied> {
    let AcquireAll { first, others } = acquire;
    caller.check(caller.to_take(), &first.lock)?;
    let namespace = &first.lock.namespace;
    others.iter().try_for_each(|other| {
        let lock = LockKey { namespace: namespace.clone(), name: other.name.clone() };
        caller.check(caller.to_take(), &lock)
    })
}

/// A lease goes on only as long as its owner may have it.
fn held(proof: &Proof, caller: &Caller) -> Result<(), Denied> {
    match proof {
        Proof::Id { lock: Some(lock), .. }
        | Proof::Owner { lock, .. }
        | Proof::Session { lock, .. } => caller.check(caller.to_take(), lock),
        // Its lock has to be looked up first: `Caller::permit_on`.
        Proof::Id { lock: None, .. } | Proof::Number { .. } => caller.check_admin(),
    }
}

fn revoke(target: &Target, caller: &Caller) -> Result<(), Denied> {
    match target {
        Target::Lock(lock) => caller.check(Right::Revoke, lock),
        // Which locks these are on has to be looked up first: `Caller::permit_on`.
        Target::Lease(..) | Target::Leases(_) => caller.check_admin(),
    }
}

fn open(_open: &OpenSession, caller: &Caller) -> Result<(), Denied> {
    let right = if caller.is_of_files() { caller.to_look() } else { caller.to_take() };
    caller.check_somewhere(right, None)
}

fn history(asked: &Asked, caller: &Caller) -> Result<(), Denied> {
    let namespace = asked.namespace.as_deref().unwrap_or_default();
    match &asked.lock {
        Some(name) => caller.check(Right::Read, &LockKey::new(namespace, name.as_str())),
        None => caller.check_somewhere(Right::Read, Some(&namespace.into())),
    }
}
