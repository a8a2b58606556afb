//! Reads the rows that records change.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_core::{Change, LeaseNumber, LockKey, Row, SessionNumber};
use rusqlite::Connection;

use super::rows;

/// The rows that a chunk changes, as they are in the tables before it.
#[derive(Default)]
pub(super) struct Touched {
    pub(super) rows: Vec<Row>,
    pub(super) namespaces: BTreeSet<Arc<str>>,
    pub(super) locks: BTreeSet<LockKey>,
    pub(super) sessions: BTreeSet<SessionNumber>,
    pub(super) leases: BTreeSet<LeaseNumber>,
}

impl Touched {
    pub(super) fn read<'a>(
        tx: &Connection,
        changes: impl Iterator<Item = &'a Change>,
    ) -> rusqlite::Result<Self> {
        let mut wanted = TouchedKeys::default();
        changes.for_each(|change| wanted.add(change));
        let mut touched = Self::default();
        let mut leases = Vec::new();
        for number in wanted.leases.difference(&wanted.new_leases) {
            if let Some(record) = rows::get_lease(tx, *number)? {
                wanted.locks.insert(record.lock.clone());
                wanted.sessions.extend(record.session);
                touched.leases.insert(*number);
                leases.push(Row::Lease(record));
            }
        }
        wanted.namespaces.extend(wanted.locks.iter().map(|key| key.namespace.clone()));
        for name in wanted.namespaces {
            if let Some(row) = rows::get_namespace(tx, &name)? {
                touched.namespaces.insert(name);
                touched.rows.push(row);
            }
        }
        for key in &wanted.locks {
            if let Some(record) = rows::get_token(tx, key)? {
                touched.locks.insert(key.clone());
                touched.rows.push(Row::Lock(record));
            }
        }
        for number in &wanted.sessions {
            if let Some(record) = rows::get_session(tx, *number)? {
                touched.sessions.insert(*number);
                touched.rows.push(Row::Session(record));
            }
        }
        touched.rows.extend(leases);
        Ok(touched)
    }
}

/// The keys of the rows that changes refer to.
#[derive(Default)]
struct TouchedKeys {
    namespaces: BTreeSet<Arc<str>>,
    locks: BTreeSet<LockKey>,
    sessions: BTreeSet<SessionNumber>,
    leases: BTreeSet<LeaseNumber>,
    new_leases: BTreeSet<LeaseNumber>,
}

impl TouchedKeys {
    fn add(&mut self, change: &Change) {
        match change {
            Change::LeaseAdded(record) => {
                self.new_leases.insert(record.number);
                self.locks.insert(record.lock.clone());
                self.sessions.extend(record.session);
            }
            Change::Granted { lease, .. }
            | Change::Renewed { lease, .. }
            | Change::Amended { lease, .. }
            | Change::Parked { lease, .. }
            | Change::Attached { lease, .. }
            | Change::Ended { lease, .. }
            | Change::RequestForgotten { lease, .. }
            | Change::LeaseForgotten { lease }
            | Change::Noted { lease, .. } => drop(self.leases.insert(*lease)),
            Change::GraceForgone { lock } | Change::LockForgotten { lock } => {
                self.locks.insert(lock.clone());
            }
            Change::SessionKept { session, .. }
            | Change::SessionEnded { session, .. }
            | Change::SessionForgotten { session } => drop(self.sessions.insert(*session)),
            Change::NamespaceForgotten { namespace } => {
                self.namespaces.insert(namespace.clone());
            }
            Change::SessionOpened(_)
            | Change::Restored { .. }
            | Change::Maintenance { .. }
            | Change::Asked { .. } => {}
        }
    }
}
