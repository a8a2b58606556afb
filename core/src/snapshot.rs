//! The whole state as rows, for a store to save and load.

use std::sync::Arc;

use crate::absorb::Incoherent;
use crate::lease::{LeaseNumber, LeaseRecord};
use crate::limits::Limits;
use crate::lock::{Lapse, LapseRecord, LockRecord, Usage};
use crate::machine::Machine;
use crate::mutant;
use crate::session::{SessionNumber, SessionRecord};
use crate::state::State;
use crate::time::Timestamp;
use crate::token::Token;
use crate::view;

/// One row of a snapshot. A store must load rows in the order of these variants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Row {
    /// The counters and settings of the whole store.
    Meta {
        /// The number of the next lease.
        next_lease: LeaseNumber,
        /// The number of the next session.
        next_session: SessionNumber,
        /// The lock time of the latest command.
        now: Timestamp,
        /// The token floor of all namespaces that are not among the rows.
        floor: Token,
        /// Whether maintenance mode is on.
        maintenance: bool,
    },
    /// A namespace and its token floor.
    Namespace {
        /// The name of the namespace.
        name: Arc<str>,
        /// At least the last token of each of its forgotten locks.
        floor: Token,
    },
    /// A lock without its leases.
    Lock(LockRecord),
    /// A session.
    Session(SessionRecord),
    /// A lease.
    Lease(LeaseRecord),
}

impl Machine {
    /// Returns all rows, in the order of the variants. Equal states produce equal rows in the same order, however they
    /// came about.
    pub fn export(&self) -> Vec<Row> {
        let state = &self.state;
        let mut rows = vec![self.export_meta()];
        rows.extend(
            state
                .namespaces
                .iter()
                .map(|n| Row::Namespace { name: n.name.clone(), floor: n.floor }),
        );
        let mut locks: Vec<_> =
            state.locks.iter().map(|(slot, _)| view::lock_record(state, slot)).collect();
        locks.sort_unstable_by(|a, b| a.lock.cmp(&b.lock));
        rows.extend(locks.into_iter().map(Row::Lock));
        let sessions = state.session_numbers.values().map(|slot| &state.sessions[*slot]);
        rows.extend(sessions.map(|session| Row::Session(view::session_record(state, session))));
        let mut leases: Vec<_> =
            state.leases.iter().map(|(_, lease)| view::lease_record(state, lease)).collect();
        leases.sort_unstable_by_key(|lease| lease.number);
        rows.extend(leases.into_iter().map(Row::Lease));
        rows
    }

    /// Returns only the first row, with the counters and settings.
    pub fn export_meta(&self) -> Row {
        let state = &self.state;
        Row::Meta {
            next_lease: state.next_lease,
            next_session: state.next_session,
            now: state.now,
            floor: state.namespaces.floor(),
            maintenance: state.maintenance,
        }
    }

    /// Builds a machine from rows. Complete it as described at [`Importer::finish`].
    pub fn import(
        limits: Limits,
        hash_seed: u128,
        rows: impl IntoIterator<Item = Row>,
    ) -> Result<Self, Incoherent> {
        let mut importer = Self::importer(limits, hash_seed);
        rows.into_iter().try_for_each(|row| importer.add(row))?;
        Ok(importer.finish())
    }

    /// Like [`Machine::import`], but takes one row at a time, so that a store need not hold all rows in memory.
    pub fn importer(limits: Limits, hash_seed: u128) -> Importer {
        Importer(Self::new(limits, hash_seed))
    }
}

/// A machine that is being built from rows.
pub struct Importer(Machine);

impl Importer {
    /// Reserves space for about this many locks and leases, which makes the import faster.
    pub fn expect(&mut self, n_locks: usize, n_leases: usize) {
        let state = &mut self.0.state;
        // The indexes are still empty, so no entry needs to be hashed again.
        state.lock_index.reserve(n_locks, |_| 0);
        state.lease_index.reserve(n_leases, |_| 0);
    }

    /// Adds the next row.
    pub fn add(&mut self, row: Row) -> Result<(), Incoherent> {
        self.0.state.import(row)
    }

    /// Completes the import. Next, apply the journal from after the snapshot, then call [`Machine::absorbed`]: only
    /// then is it known which queues need a check.
    pub fn finish(mut self) -> Machine {
        self.0.state.rest_all();
        self.0
    }
}

impl State {
    fn import(&mut self, row: Row) -> Result<(), Incoherent> {
        match row {
            Row::Meta { next_lease, next_session, now, floor, maintenance } => {
                self.maintenance = maintenance;
                self.namespaces.set_floor(floor);
                self.next_lease = next_lease;
                self.next_session = next_session;
                self.now = now;
            }
            Row::Namespace { name, floor } => {
                if self.namespaces.find(&name).is_some() {
                    return Err(Incoherent(format!("namespace {name:?} is there twice")));
                }
                // Uses the row's floor, because a namespace that was forgotten since might have raised the floor of
                // unknown ones.
                self.namespaces.add(&name, floor);
            }
            Row::Lock(record) => self.import_lock(record)?,
            Row::Session(record) => self.add_session(&record),
            // A holder's grant ends any lapse. A lapse after that grant is in the lock's row, which was imported
            // earlier.
            Row::Lease(mut record) => {
                record.group = record.group.filter(|_| !mutant!(GroupNotStored));
                self.add_lease(&record)?;
            }
        }
        Ok(())
    }

    fn import_lock(&mut self, record: LockRecord) -> Result<(), Incoherent> {
        if self.find_lock(&record.lock).is_some() {
            return Err(Incoherent(format!("lock {:?} is there twice", record.lock)));
        }
        let slot = self.add_lock(&record.lock);
        if !mutant!(TokenInMemoryOnly) {
            self.locks[slot].last_token = record.last_token;
        }
        if let Some(LapseRecord { owner, dialect, expired_at, grace_until }) = record.lapse {
            // A lapse does not record the peer of its owner. Nothing is counted by a lapse, so it is not needed.
            let owner = self.owners.retain(&owner, None);
            self.set_lapse(slot, Lapse { owner, dialect, expired_at, grace_until });
        }
        Ok(())
    }

    /// Marks unused locks as idle. Locks are imported before their leases, so this is known only at the end.
    fn rest_all(&mut self) {
        let busy = self.locks.iter().filter(|(_, lock)| matches!(lock.usage, Usage::Busy(_)));
        for slot in busy.map(|(slot, _)| slot).collect::<Vec<_>>() {
            self.rest(slot);
        }
    }

    pub(crate) fn mark_queues_pending(&mut self) {
        let waited_for = self.locks.iter().filter(|(_, lock)| lock.queue().is_some());
        for slot in waited_for.map(|(slot, _)| slot).collect::<Vec<_>>() {
            let busy = self.locks[slot].busy_mut();
            if !std::mem::replace(&mut busy.pending, true) {
                self.pending.push_back(slot);
            }
        }
    }
}
