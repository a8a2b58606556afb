//! How a request gets permitted: the right that it needs, or the reason why it needs none.
//!
//! Each layer above implements these traits next to its own requests. A handler cannot make a request of a type that
//! implements none of them.

use leasehold_core::{
    Acquire, AcquireAll, Cancel, CloseSession, EndSession, GiveUp, KeepSession, LockKey, Maintain,
    OpenSession, Proof, Release, ReleaseAll, Renew, RenewAll, Revoke, Target,
};

use super::gate::ReadAuth;
use super::{Caller, Denied, Right};

/// A request that needs a right.
pub trait Governed {
    /// Checks the caller's rights. Reads are also restricted to the entries that the caller can see.
    fn govern(&mut self, caller: &Caller) -> Result<(), Denied>;
}

/// A request that needs no right, only a proof that belongs to its caller.
pub trait Own {
    /// Binds the request to the caller, so that it cannot affect objects of other principals.
    fn bind(&mut self, caller: &Caller);
}

/// A list that a handler can restrict to another right than the one to read.
pub trait GovernedBy {
    /// Restricts the list to the locks on which the caller has `right`. Fails if it has that right on none of them.
    fn govern_by(&mut self, right: Right, caller: &Caller) -> Result<(), Denied>;
}

/// A request that can be made without a check of rights, for one [purpose](purpose).
pub trait Exempt<Purpose> {}

/// The right to make this request includes the right to read the same object.
pub trait Includes {
    /// The read.
    type Read: Exempt<purpose::Inclusion>;

    /// Returns the read of the same object.
    fn to_read(&self) -> Self::Read;
}

/// Why a request needs no check of rights.
pub mod purpose {
    /// The request carries a secret that is itself the credential.
    pub enum Secret {}

    /// The handler only tests whether the object exists.
    pub enum Existence {}

    /// The handler only searches the object for the caller's own lease.
    pub enum OwnLease {}

    /// The result goes to the audit file. The client does not see it.
    pub enum AuditRecord {}

    /// The caller has a right that includes this one.
    pub enum Inclusion {}
}

/// Implements [`Governed`]: one line per type of request.
#[macro_export]
macro_rules! governed {
    ($($ask:ty: |$asked:ident, $caller:ident| $check:expr;)*) => {$(
        impl $crate::Governed for $ask {
            fn govern(
                &mut self,
                $caller: &$crate::Caller,
            ) -> Result<(), $crate::Denied> {
                let $asked = self;
                $check
            }
        }
    )*};
}

/// Implements [`Own`]: one line per type of request.
#[macro_export]
macro_rules! own {
    ($($ask:ty: |$asked:ident, $caller:ident| $bind:expr;)*) => {$(
        impl $crate::Own for $ask {
            fn bind(&mut self, $caller: &$crate::Caller) {
                let $asked = self;
                $bind
            }
        }
    )*};
}

governed! {
    Acquire: |asked, caller| {
        caller.bind_acquire(asked);
        caller.check(caller.to_take(), &asked.lock)
    };
    AcquireAll: |asked, caller| each(asked, caller);
    Renew: |asked, caller| held(&mut asked.proof, caller);
    RenewAll: |asked, caller| {
        asked.proofs.iter_mut().try_for_each(|proof| held(proof, caller))
    };
    Revoke: |asked, caller| revoke(&asked.target, caller);
    OpenSession: |asked, caller| open(asked, caller);
    EndSession: |_asked, caller| caller.check_admin();
    Maintain: |_asked, caller| caller.check_admin();
    ReadAuth: |_asked, caller| caller.check_admin();
}

own! {
    // These requests name an owner, whose principal is set to the caller's.
    Release: |asked, caller| caller.bind_proof(&mut asked.proof);
    ReleaseAll: |asked, caller| asked.proofs.iter_mut().for_each(|proof| caller.bind_proof(proof));
    Cancel: |asked, caller| asked.owner.principal = caller.principal().name().clone();
    GiveUp: |asked, caller| asked.owner.principal = caller.principal().name().clone();
    // A session's secret is valid only for the principal that opened the session.
    KeepSession: |asked, caller| asked.principal = caller.name_if_asked();
    CloseSession: |asked, caller| asked.principal = caller.name_if_asked();
}

impl Caller {
    /// Sets the principal of the proof to the caller's, so that the proof of another principal fails.
    pub fn bind_proof(&self, proof: &mut Proof) {
        match proof {
            Proof::Id { owner, .. } | Proof::Owner { owner, .. } => {
                owner.principal = self.principal().name().clone();
            }
            Proof::Number { principal, .. } | Proof::Session { principal, .. } => {
                *principal = self.name_if_asked();
            }
        }
    }

    /// Binds the acquire to the caller and its quotas, without a check of rights.
    pub fn bind_acquire(&self, acquire: &mut Acquire) {
        acquire.owner.principal = self.principal().name().clone();
        if let Some(authority) = self.authority() {
            acquire.quota = self.quota().and_then(|quota| quota.leases);
            acquire.bytes_quota = self.quota().and_then(|quota| quota.bytes);
            let shared = authority.quota_of_namespace(&acquire.lock.namespace);
            acquire.namespace_quota = shared.and_then(|quota| quota.leases);
        }
    }
}

fn each(acquire: &mut AcquireAll, caller: &Caller) -> Result<(), Denied> {
    let AcquireAll { first, others } = acquire;
    first.govern(caller)?;
    let namespace = &first.lock.namespace;
    others.iter().try_for_each(|other| {
        let lock = LockKey { namespace: namespace.clone(), name: other.name.clone() };
        caller.check(caller.to_take(), &lock)
    })
}

/// Checks a renewal: the owner must still have the right to acquire the lock.
fn held(proof: &mut Proof, caller: &Caller) -> Result<(), Denied> {
    caller.bind_proof(proof);
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
