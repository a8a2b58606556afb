//! What the directory asks the writer: which locks have changed, and how they are now.

use std::sync::Arc;

use leasehold_core::{Glance, Machine, Timestamp};

use super::owners::number;
use super::row::{OWNERS_MAX, Row};
use crate::batch::Batch;
use crate::owner::{is_proof, shown};
use crate::read::Look;
use crate::writer::Writer;

/// Locks that are collected before it is checked whether the turn is over: the length of their texts is not known
/// before.
const STEP: usize = 32;
/// Locks that are collected in one turn.
const TURN: usize = 256;
/// Text that is copied in one turn.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// Collects some of the locks that have changed.
#[derive(Clone, Debug)]
pub struct Collect {
    /// The last collection that arrived.
    pub(super) after: u64,
    /// The number of this one.
    pub(super) id: u64,
}

/// Collects nothing any more: the writer need not note which locks change.
#[derive(Clone, Copy, Debug)]
pub struct StopCollecting;

/// Locks as they are now.
#[derive(Clone, Default, Debug)]
pub struct Changes {
    /// The number of the collection.
    pub(super) id: u64,
    /// Whether everything known before is void.
    pub(crate) is_fresh: bool,
    /// How many more there are.
    pub(crate) n_left: usize,
    /// The number of collections of [`STEP`] locks in it.
    pub(super) n_steps: usize,
    /// The slots of locks, with what is there.
    pub(super) locks: Vec<(u32, Option<LockSummary>)>,
    /// The slots of sessions, with their ends.
    pub(super) sessions: Vec<(u32, u64)>,
    /// The names of the locks, each followed by the texts of its owners.
    pub(super) text: String,
    /// The owners of the locks.
    pub(super) owners: Vec<OwnerText>,
}

/// A lock, whose name and owners are in [`Changes`].
#[derive(Clone, Debug)]
pub(super) struct LockSummary {
    pub(super) namespace: Arc<str>,
    pub(super) name_len: u32,
    pub(super) n_owners: u32,
    pub(super) row: Row,
}

/// The lengths of an owner's texts.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnerText {
    pub(super) number: u32,
    pub(super) shown_len: u32,
    pub(super) principal_len: u32,
}

impl Look for Collect {
    type Found = Changes;

    fn look(self, writer: &mut Writer, _: &mut Batch) -> Changes {
        self.look_at(&mut writer.machine)
    }
}

impl Collect {
    pub(super) fn look_at(self, machine: &mut Machine) -> Changes {
        let mut changes = Changes { id: self.id, ..Changes::default() };
        for _ in 0..TURN / STEP {
            let collected = machine.collect(self.after, self.id, STEP);
            (changes.is_fresh, changes.n_left) = (collected.is_fresh, collected.n_left);
            changes.n_steps += 1;
            for at in collected.locks {
                let found = machine.glance(at).map(|lock| changes.summarize(lock));
                changes.locks.push((at as u32, found));
            }
            let ends = |(at, deadline): (usize, Option<Timestamp>)| {
                (at as u32, deadline.map_or(u64::MAX, |at| at.as_nanos()))
            };
            changes.sessions.extend(collected.sessions.into_iter().map(ends));
            if changes.n_left == 0 || changes.text.len() >= TEXT_BYTES_MAX {
                break;
            }
        }
        changes
    }
}

impl Changes {
    /// Returns how many marks it leaves out of those that there were before.
    pub(crate) fn n_taken(&self) -> usize {
        self.n_steps * STEP
    }

    fn summarize(&mut self, lock: Glance<'_>) -> LockSummary {
        let (row, name, mut n_owners) = (Row::of(lock), lock.name(), 0);
        self.text.push_str(name);
        for seen in lock.owners(OWNERS_MAX) {
            // Only what is shown is searched: otherwise the rest could be guessed letter by letter.
            let shown = shown(seen.dialect, seen.owner);
            self.text.push_str(&shown);
            self.text.push_str(&seen.owner.principal);
            self.owners.push(OwnerText {
                number: number(seen.at, is_proof(seen.dialect, seen.owner)),
                shown_len: shown.len() as u32,
                principal_len: seen.owner.principal.len() as u32,
            });
            n_owners += 1;
        }
        let (namespace, name_len) = (lock.namespace().clone(), name.len() as u32);
        LockSummary { namespace, name_len, n_owners, row }
    }
}

impl Look for StopCollecting {
    type Found = ();

    fn look(self, writer: &mut Writer, _: &mut Batch) {
        writer.machine.stop_collecting();
    }
}
