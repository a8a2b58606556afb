//! Applies changes to the state. All changes go through here, from commands as well as from the journal.
//!
//! This code decides nothing. A [`Change`] states what has happened, and this code records it.

mod lease;
mod lock;
mod session;
mod weight;

use std::fmt;

use crate::arena::Slot;
use crate::change::Change;
use crate::lease::{Lease, LeaseNumber};
use crate::session::{Session, SessionNumber};
use crate::state::State;
use crate::time::Timestamp;

/// A change does not fit the state: the journal is damaged or belongs to another store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Incoherent(pub(crate) String);

impl fmt::Display for Incoherent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Incoherent {}

impl State {
    /// Applies a change that happened at `now`.
    pub(crate) fn absorb(&mut self, now: Timestamp, change: &Change) -> Result<(), Incoherent> {
        self.now = self.now.max(now);
        match change {
            Change::LeaseAdded(record) => self.add_lease(record)?,
            Change::Granted { lease, token, at, deadline } => {
                self.grant(self.known_lease(*lease)?, *token, *at, *deadline)
            }
            Change::Renewed { lease, at, deadline, request } => {
                self.renew(self.known_lease(*lease)?, *at, *deadline, request.clone());
            }
            Change::Amended { lease, ttl } => self.amend(self.known_lease(*lease)?, *ttl),
            Change::Parked { lease, deadline } => self.park(self.known_lease(*lease)?, *deadline),
            Change::Attached { lease, deadline } => {
                self.attach(self.known_lease(*lease)?, *deadline);
            }
            Change::Ended { lease, how, at, kept, request, reason } => {
                let slot = self.known_lease(*lease)?;
                let ended = lease::Ended {
                    how: *how,
                    at: *at,
                    kept: *kept,
                    request: request.clone(),
                    reason: reason.clone(),
                };
                self.end_lease(slot, ended);
            }
            Change::RequestForgotten { lease, operation, id } => {
                self.forget_request(self.known_lease(*lease)?, *operation, id);
            }
            Change::LeaseForgotten { lease } => self.forget_lease(self.known_lease(*lease)?),
            Change::GraceForgone { lock } => {
                let slot = self.find_lock(lock).ok_or_else(|| unknown(lock))?;
                self.clear_lapse(slot);
                self.rest(slot);
            }
            Change::LockForgotten { lock } => {
                self.forget_lock(self.find_lock(lock).ok_or_else(|| unknown(lock))?);
            }
            Change::SessionOpened(record) => self.add_session(record),
            Change::SessionKept { session, deadline } => {
                self.keep_session(self.known_session(*session)?, *deadline);
            }
            Change::SessionEnded { session, how, at } => {
                self.end_session(self.known_session(*session)?, *how, *at);
            }
            Change::SessionForgotten { session } => {
                self.forget_session(self.known_session(*session)?);
            }
            Change::Restored { raise } => self.restore(*raise),
            Change::NamespaceForgotten { namespace } => self.forget_namespace(namespace)?,
            Change::Maintenance { on } => self.maintenance = *on,
            Change::Asked { .. } => {}
            // A fold that loads only part of the state might not have the lease.
            Change::Noted { lease, at, .. } => {
                if let Some(slot) = self.find_lease(*lease) {
                    self.noted(slot, *at);
                }
            }
        }
        Ok(())
    }

    fn forget_namespace(&mut self, name: &str) -> Result<(), Incoherent> {
        let slot = self.namespaces.find(name).ok_or_else(|| unknown(name))?;
        if self.namespaces.get(slot).n_locks > 0 {
            return Err(Incoherent(format!("namespace {name:?} is forgotten, but has locks")));
        }
        if let Some(account) = self.namespaces.get(slot).account {
            self.owners.accounts.get_mut(account).n_namespaces -= 1;
            self.owners.accounts.release(account);
        }
        self.namespaces.forget(slot);
        Ok(())
    }

    /// Removes everything except the namespaces, and raises their token floors above every token issued before.
    fn restore(&mut self, raise: u64) {
        let mut fresh = State::new(0, self.vigil.afresh(), self.share);
        fresh.hash = self.hash;
        fresh.owners = crate::owner::Owners::new(self.hash);
        fresh.now = self.now;
        fresh.maintenance = self.maintenance;
        fresh.next_lease = LeaseNumber(self.next_lease.0 + raise);
        fresh.next_session = SessionNumber(self.next_session.0 + raise);
        let old = std::mem::replace(self, fresh);
        self.namespaces = old.namespaces;
        self.namespaces.clear();
        self.namespaces.set_floor(self.namespaces.floor().raised(raise));
        for (_, lock) in old.locks.iter() {
            self.namespaces.raise_floor(lock.namespace, lock.last_token);
        }
        for slot in self.namespaces.slots().collect::<Vec<_>>() {
            let raised = self.namespaces.get(slot).floor.raised(raise);
            self.namespaces.raise_floor(slot, raised);
        }
    }

    fn known_lease(&self, number: LeaseNumber) -> Result<Slot<Lease>, Incoherent> {
        self.find_lease(number).ok_or_else(|| unknown(number))
    }

    fn known_session(&self, number: SessionNumber) -> Result<Slot<Session>, Incoherent> {
        self.session_numbers.get(&number).copied().ok_or_else(|| unknown(number))
    }
}

fn unknown(what: impl fmt::Debug) -> Incoherent {
    Incoherent(format!("a change is about {what:?}, which is not known"))
}
