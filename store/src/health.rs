//! How a store is: whether its journal is folded into its tables, and how much is not yet.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use leasehold_base::sync::lock;

use super::{Error, Pulse};

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

/// The space on the disk of an embedded store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskSpace {
    /// Free bytes.
    pub free: u64,
    /// Acquires are refused below this: the minimum, and what folding the journal takes.
    pub needed: u64,
    /// Bytes set aside for renewals, releases and expiries.
    pub reserve: u64,
    /// Bytes that should be set aside.
    pub reserve_wanted: u64,
    /// Acquires are refused.
    pub is_low: bool,
}

impl DiskSpace {
    /// Has some of the reserve been used?
    pub fn is_tapped(&self) -> bool {
        self.is_low && self.reserve < self.reserve_wanted
    }
}

/// Written by the store, read by whoever watches it.
#[derive(Default)]
pub struct Health {
    pulse: Pulse,
    room: Mutex<Room>,
    disk: Mutex<Option<DiskSpace>>,
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

    /// A lasting problem of the store, if there is one.
    pub fn trouble(&self) -> Option<String> {
        self.fold_trouble().or_else(|| self.disk_trouble())
    }

    /// Why acquires are refused for lack of disk space, if they are.
    fn disk_trouble(&self) -> Option<String> {
        let DiskSpace { free, needed, reserve, reserve_wanted, .. } =
            self.disk().filter(|disk| disk.is_low)?;
        Some(format!(
            "disk space is low: {free} bytes free of {needed} needed (disk-free-min), {reserve} of {reserve_wanted} \
             bytes left in the reserve; acquires are refused, renewals and releases continue"
        ))
    }

    /// Why the journal has not been folded for a while, if it has not.
    fn fold_trouble(&self) -> Option<String> {
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

    /// The space on the disk of an embedded store that watches it.
    pub fn disk(&self) -> Option<DiskSpace> {
        *lock(&self.disk)
    }

    /// For embedded stores: publishes the space that is left.
    pub fn found_disk(&self, disk: DiskSpace) {
        self.is_short.store(disk.is_low, Relaxed);
        *lock(&self.disk) = Some(disk);
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
