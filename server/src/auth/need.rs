//! The right that each request to the engine and the content store needs: one line per type.
//!
//! A handler cannot make a request of a type that is not listed here.

use leasehold_core::{
    Acquire, AcquireAll, Cancel, CloseSession, EndSession, GiveUp, KeepSession, LockKey, Maintain,
    OpenSession, Proof, Release, ReleaseAll, Renew, RenewAll, Revoke, Target,
};

use super::gate::ReadAuth;
use super::{Caller, Denied, Right};
use crate::backup::TakeBackup;
use crate::content::{ToRead, ToWrite};
use crate::engine::{
    CountNamespaces, Enqueue, Interest, ListHoldings, ListLeases, ListLocks, ListSessions, Probe,
    ReadHistory, ReadLease, ReadLeases, ReadLock, ReadMaintenance, ReadSession, Survey, Take,
    TakeAll, WaitFor, WaitForAll, WatchLease,
};

/// A request that needs a right.
pub(crate) trait Governed {
    /// Checks the caller's rights. Reads are also restricted to the entries that the caller can see.
    fn govern(&mut self, caller: &Caller) -> Result<(), Denied>;
}

/// A request that needs no right, only a proof that belongs to its caller.
pub(crate) trait Own {
    /// Binds the request to the caller, so that it cannot affect objects of other principals.
    fn bind(&mut self, caller: &Caller);
}

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
    ($($ask:ty: |$asked:ident, $caller:ident| $bind:expr;)*) => {$(
        impl Own for $ask {
            fn bind(&mut self, $caller: &Caller) {
                let $asked = self;
                $bind
            }
        }
    )*};
}

governed! {
    Take: |asked, caller| take(&mut asked.0, caller);
    TakeAll: |asked, caller| with_those_around(asked, caller);
    WaitFor: |asked, caller| take(&mut asked.acquire, caller);
    WaitForAll: |asked, caller| each(&mut asked.acquire, caller);
    Enqueue: |asked, caller| take(&mut asked.acquire, caller);
    Renew: |asked, caller| held(&mut asked.proof, caller);
    RenewAll: |asked, caller| {
        asked.proofs.iter_mut().try_for_each(|proof| held(proof, caller))
    };
    Revoke: |asked, caller| revoke(&asked.target, caller);
    OpenSession: |asked, caller| open(asked, caller);
    ReadLock: |asked, caller| caller.check(caller.to_look(), &asked.key);
    ListLocks: |asked, caller| list(asked, caller.to_look(), caller);
    Interest: |asked, caller| match asked {
        Interest::Namespace(namespace) => caller.check_somewhere(Right::Read, Some(namespace)),
        Interest::Lock(lock) => caller.check(Right::Read, lock),
        // The subscriber receives only events on locks it can read.
        Interest::All => caller.check_somewhere(Right::Read, None),
    };
    Survey: |asked, caller| {
        asked.view = caller.view(Right::Read);
        caller.check_somewhere(Right::Read, None)
    };
    ReadHistory: |asked, caller| history(asked, caller);
    ListLeases: |asked, caller| {
        asked.view = caller.view(Right::Read);
        caller.check_somewhere(Right::Read, None)
    };
    ReadLeases: |asked, caller| {
        asked.view = caller.view(Right::Read);
        caller.check_somewhere(Right::Read, None)
    };
    ListHoldings: |asked, caller| {
        asked.view = caller.view(Right::Revoke);
        caller.check_somewhere(Right::Revoke, None)
    };
    ListSessions: |_asked, caller| caller.check_admin();
    CountNamespaces: |_asked, caller| caller.check_everywhere(Right::Read);
    EndSession: |_asked, caller| caller.check_admin();
    Maintain: |_asked, caller| caller.check_admin();
    ReadMaintenance: |_asked, caller| caller.check_admin();
    TakeBackup: |_asked, caller| caller.check_admin();
    ReadAuth: |_asked, caller| caller.check_admin();
    ToRead: |asked, caller| asked.govern_by(caller, caller.view(Right::FilesRead));
    ToWrite: |asked, caller| asked.govern_by(caller, caller.view(Right::FilesRead));
}

own! {
    // These requests name an owner, whose principal is set to the caller's.
    Release: |asked, caller| bind(&mut asked.proof, caller);
    ReleaseAll: |asked, caller| asked.proofs.iter_mut().for_each(|proof| bind(proof, caller));
    WatchLease: |asked, caller| bind(&mut asked.proof, caller);
    Cancel: |asked, caller| asked.owner.principal = caller.principal().name().clone();
    GiveUp: |asked, caller| asked.owner.principal = caller.principal().name().clone();
    // A session's secret is valid only for the principal that opened the session.
    KeepSession: |asked, caller| asked.principal = caller.name_if_asked();
    CloseSession: |asked, caller| asked.principal = caller.name_if_asked();
    ReadSession: |asked, caller| asked.principal = caller.name_if_asked();
    // Leases of other principals are visible to callers that can read the lock.
    ReadLease: |asked, caller| asked.view = caller.view_with_own(caller.to_look());
    // A probe reveals nothing.
    Probe: |_asked, _caller| {};
}

/// Sets the principal of the proof to the caller's, so that the proof of another principal fails.
fn bind(proof: &mut Proof, caller: &Caller) {
    match proof {
        Proof::Id { owner, .. } | Proof::Owner { owner, .. } => {
            owner.principal = caller.principal().name().clone();
        }
        Proof::Number { principal, .. } | Proof::Session { principal, .. } => {
            *principal = caller.name_if_asked();
        }
    }
}

/// Restricts a list to the locks on which the caller has `right`. Fails if it has that right on no lock of the
/// namespace.
pub(super) fn list(asked: &mut ListLocks, right: Right, caller: &Caller) -> Result<(), Denied> {
    asked.0.view = caller.view(right);
    caller.check_somewhere(right, Some(&asked.0.namespace))
}

/// Binds the acquire to the caller and its quotas, and checks the right to acquire.
fn take(acquire: &mut Acquire, caller: &Caller) -> Result<(), Denied> {
    bind_take(acquire, caller);
    caller.check(caller.to_take(), &acquire.lock)
}

fn bind_take(acquire: &mut Acquire, caller: &Caller) {
    acquire.owner.principal = caller.principal().name().clone();
    if let Some(authority) = caller.authority() {
        acquire.quota = caller.quota().and_then(|quota| quota.leases);
        acquire.bytes_quota = caller.quota().and_then(|quota| quota.bytes);
        let shared = authority.quota_of_namespace(&acquire.lock.namespace);
        acquire.namespace_quota = shared.and_then(|quota| quota.leases);
    }
}

/// Checks the right to acquire on the requested locks. The surrounding locks need no right: every client that locks
/// something inside them shares them.
fn with_those_around(asked: &mut TakeAll, caller: &Caller) -> Result<(), Denied> {
    bind_take(&mut asked.acquire.first, caller);
    asked.of.iter().try_for_each(|lock| caller.check(caller.to_take(), lock))
}

fn each(acquire: &mut AcquireAll, caller: &Caller) -> Result<(), Denied> {
    let AcquireAll { first, others } = acquire;
    take(first, caller)?;
    let namespace = &first.lock.namespace;
    others.iter().try_for_each(|other| {
        let lock = LockKey { namespace: namespace.clone(), name: other.name.clone() };
        caller.check(caller.to_take(), &lock)
    })
}

/// Checks a renewal: the owner must still have the right to acquire the lock.
fn held(proof: &mut Proof, caller: &Caller) -> Result<(), Denied> {
    bind(proof, caller);
    match proof {
        Proof::Id { lock: Some(lock), .. }
        | Proof::Owner { lock, .. }
        | Proof::Session { lock, .. } => caller.check(caller.to_take(), lock),
        // The lock must be looked up first: see `Caller::permit_on`.
        Proof::Id { lock: None, .. } | Proof::Number { .. } => caller.check_admin(),
    }
}

fn revoke(target: &Target, caller: &Caller) -> Result<(), Denied> {
    match target {
        Target::Lock(lock) => caller.check(Right::Revoke, lock),
        // The locks must be looked up first: see `Caller::permit_on`.
        Target::Lease(..) | Target::Leases(_) => caller.check_admin(),
    }
}

fn open(open: &mut OpenSession, caller: &Caller) -> Result<(), Denied> {
    open.owner.principal = caller.principal().name().clone();
    let right = if caller.is_of_files() { caller.to_look() } else { caller.to_take() };
    caller.check_somewhere(right, None)
}

fn history(asked: &mut ReadHistory, caller: &Caller) -> Result<(), Denied> {
    asked.view = caller.view(Right::Read);
    let namespace = asked.query.namespace.as_deref().unwrap_or_default();
    match &asked.query.lock {
        Some(name) => caller.check(Right::Read, &LockKey::new(namespace, name.as_str())),
        None => caller.check_somewhere(Right::Read, Some(namespace)),
    }
}
