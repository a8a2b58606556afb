//! The right that each request to the engine requires: one line per type.
//!
//! The rights for commands of the core, such as a renewal, are in `need.rs` of auth.

use leasehold_auth::purpose::{AuditRecord, OwnLease, Secret};
use leasehold_auth::{Caller, Denied, Exempt, GovernedBy, Right};
use leasehold_core::LockKey;

use super::{
    CheckToken, CountNamespaces, Enqueue, Interest, ListHoldings, ListLeases, ListLocks,
    ListSessions, Probe, ReadHistory, ReadLease, ReadLeases, ReadLock, ReadLocks, ReadMaintenance,
    ReadSession, SearchLocks, Take, TakeAll, WaitFor, WaitForAll, WatchLease,
};
use leasehold_auth::{governed, own};

governed! {
    Take: |asked, caller| asked.0.govern(caller);
    TakeAll: |asked, caller| with_those_around(asked, caller);
    WaitFor: |asked, caller| asked.acquire.govern(caller);
    WaitForAll: |asked, caller| asked.acquire.govern(caller);
    Enqueue: |asked, caller| asked.acquire.govern(caller);
    ReadLock: |asked, caller| caller.check(caller.to_look(), &asked.key);
    CheckToken: |asked, caller| caller.check(caller.to_look(), &asked.key);
    ListLocks: |asked, caller| asked.govern_by(caller.to_look(), caller);
    Interest: |asked, caller| match asked {
        Interest::Namespace(namespace) => caller.check_somewhere(Right::Read, Some(namespace)),
        Interest::Lock(lock) => caller.check(Right::Read, lock),
        // The subscriber receives only events on locks it can read.
        Interest::All => caller.check_somewhere(Right::Read, None),
    };
    SearchLocks: |asked, caller| {
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
    ReadMaintenance: |_asked, caller| caller.check_admin();
}

own! {
    WatchLease: |asked, caller| caller.bind_proof(&mut asked.proof);
    ReadSession: |asked, caller| asked.principal = caller.name_if_asked();
    // Leases of other principals are visible to callers that can read the lock.
    ReadLease: |asked, caller| asked.view = caller.view_with_own(caller.to_look());
    // A probe reveals nothing.
    Probe: |_asked, _caller| {};
}

impl Exempt<Secret> for ReadSession {}
impl Exempt<OwnLease> for ReadLock {}
impl Exempt<AuditRecord> for ReadLock {}
impl Exempt<AuditRecord> for ReadLocks {}
impl Exempt<AuditRecord> for ReadLease {}

impl GovernedBy for ListLocks {
    fn govern_by(&mut self, right: Right, caller: &Caller) -> Result<(), Denied> {
        self.0.view = caller.view(right);
        caller.check_somewhere(right, Some(&self.0.namespace))
    }
}

/// Checks the right to acquire on the requested locks. The surrounding locks need no right: every client that locks
/// something inside them shares them.
fn with_those_around(asked: &mut TakeAll, caller: &Caller) -> Result<(), Denied> {
    caller.bind_acquire(&mut asked.acquire.first);
    asked.of.iter().try_for_each(|lock| caller.check(caller.to_take(), lock))
}

fn history(asked: &mut ReadHistory, caller: &Caller) -> Result<(), Denied> {
    asked.view = caller.view(Right::Read);
    let namespace = asked.query.namespace.as_deref().unwrap_or_default();
    match &asked.query.lock {
        Some(name) => caller.check(Right::Read, &LockKey::new(namespace, name.as_str())),
        None => caller.check_somewhere(Right::Read, Some(namespace)),
    }
}
