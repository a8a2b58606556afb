//! How a store is: whether its journal is folded into its tables, and how much is not yet.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::{Error, Pulse};
use crate::sync::lock;

/// One fold may fail because somebody else has the tables for a moment. So many in a row have another reason.
const FAILURES_MAX: u64 = 3;

/// How much room a store elsewhere has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Room {
    /// Bytes of its file.
    pub n_bytes: u64,
    /// Bytes of it that are used.
    pub n_bytes_in_use: u64,
    /// Bytes it may have; 0: that is not known.
    pub quota: u64,
    /// Alarms that are raised.
    pub n_alarms: u64,
    /// Members that do not answer.
    pub n_silent: u64,
    /// There is hardly any left: nothing more is granted.
    pub is_short: bool,
    /// There is none left: nothing can be written.
    pub is_out: bool,
}

/// Written by the store, read by whoever watches it.
#[derive(Default)]
pub struct Health {
    pulse: Pulse,
    room: Mutex<Room>,
    is_short: AtomicBool,
    n_bytes: AtomicU64,
    n_failures: AtomicU64,
    n_in_a_row: AtomicU64,
    last: Mutex<Option<String>>,
    unanswered: Mutex<String>,
}

impl Health {
    /// Bytes of journal records that are not in the tables yet.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes.load(Relaxed)
    }

    /// How often a fold has failed.
    pub fn n_failures(&self) -> u64 {
        self.n_failures.load(Relaxed)
    }

    /// Why the journal is not folded, if it is not for a while.
    pub fn trouble(&self) -> Option<String> {
        let n = self.n_in_a_row.load(Relaxed);
        if n < FAILURES_MAX {
            return None;
        }
        let last = lock(&self.last).clone();
        let why = last.unwrap_or_default();
        Some(format!(
            "the journal cannot be folded into the tables ({n} attempts, {} bytes so far): {why}",
            self.n_bytes()
        ))
    }

    /// Signs of life of a store that several servers share.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// How much room there is elsewhere.
    pub fn room(&self) -> Room {
        *lock(&self.room)
    }

    /// Is there so little room that nothing more may be granted?
    pub fn is_short(&self) -> bool {
        self.is_short.load(Relaxed)
    }

    /// For stores: so much room is left.
    pub fn found(&self, room: Room) {
        self.is_short.store(room.is_short, Relaxed);
        *lock(&self.room) = room;
    }

    /// For stores: nothing could be written for want of room.
    pub fn is_out_of_room(&self) {
        let room = Room { is_short: true, is_out: true, ..self.room() };
        self.found(room);
    }

    /// For stores: a question to where it is was not answered, and why.
    pub fn is_unanswered(&self, why: String) {
        *lock(&self.unanswered) = why;
    }

    /// Why a question was last not answered.
    pub fn why_unanswered(&self) -> String {
        lock(&self.unanswered).clone()
    }

    /// For stores: so much is in the journal and not in the tables at the start.
    pub fn start(&self, n_bytes: u64) {
        self.n_bytes.store(n_bytes, Relaxed);
    }

    /// For stores: a record was appended.
    pub fn appended(&self, n_bytes: usize) {
        self.n_bytes.fetch_add(n_bytes as u64, Relaxed);
    }

    /// For stores: records are in the tables.
    pub fn folded(&self, n_bytes: u64) {
        let less = |n: u64| Some(n.saturating_sub(n_bytes));
        // It always says yes.
        let _ = self.n_bytes.fetch_update(Relaxed, Relaxed, less);
    }

    /// For stores: a fold has ended.
    pub fn fold_ended(&self, result: Result<(), &Error>) {
        let Err(error) = result else { return self.n_in_a_row.store(0, Relaxed) };
        *lock(&self.last) = Some(error.to_string());
        self.n_failures.fetch_add(1, Relaxed);
        self.n_in_a_row.fetch_add(1, Relaxed);
    }
}
