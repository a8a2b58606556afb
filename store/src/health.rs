//! The health of a store: disk space, and the part of the journal that is not folded into the tables yet.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use leasehold_base::sync::lock;

use super::{Error, Pulse};

/// The number of consecutive failed folds that counts as a lasting problem. A single fold can fail because another
/// process briefly locks the tables.
const FAILURES_MAX: u64 = 3;

/// The space that a shared store has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Room {
    /// The size of its database file, in bytes.
    pub n_bytes: u64,
    /// The bytes of the file that are in use.
    pub n_bytes_in_use: u64,
    /// The quota in bytes, or 0 if it is unknown.
    pub quota: u64,
    /// The number of active alarms.
    pub n_alarms: u64,
    /// The number of members that do not respond.
    pub n_silent: u64,
    /// Whether so little space is left that no more locks are granted.
    pub is_short: bool,
    /// Whether no space is left, so that nothing can be written.
    pub is_out: bool,
}

/// The space on the disk of an embedded store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskSpace {
    /// Free bytes.
    pub free: u64,
    /// Acquires are rejected if less than this is free: the minimum, and the space that folding the journal takes.
    pub needed: u64,
    /// Bytes set aside for renewals, releases and expiries.
    pub reserve: u64,
    /// Bytes that should be set aside.
    pub reserve_wanted: u64,
    /// Whether acquires are rejected.
    pub is_low: bool,
}

impl DiskSpace {
    /// Returns whether part of the reserve has been used.
    pub fn is_tapped(&self) -> bool {
        self.is_low && self.reserve < self.reserve_wanted
    }
}

/// The health of a store, written by the store and read by monitoring.
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
    /// Returns the size of the journal records that are not in the tables yet, in bytes.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes.load(Relaxed)
    }

    /// Returns how many folds have failed.
    pub fn n_failures(&self) -> u64 {
        self.n_failures.load(Relaxed)
    }

    /// Returns a lasting problem of the store, if there is one.
    pub fn trouble(&self) -> Option<String> {
        self.fold_trouble().or_else(|| self.disk_trouble())
    }

    /// Returns why acquires are rejected for lack of disk space, if they are.
    fn disk_trouble(&self) -> Option<String> {
        let DiskSpace { free, needed, reserve, reserve_wanted, .. } =
            self.disk().filter(|disk| disk.is_low)?;
        Some(format!(
            "disk space is low: {free} bytes free of {needed} needed (disk-free-min), {reserve} of {reserve_wanted} \
             bytes left in the reserve; acquires are refused, renewals and releases continue"
        ))
    }

    /// Returns why the journal has not been folded for a while, if that is so.
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

    /// Returns the signs of life of a cluster's store.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Returns the space that a shared store has left.
    pub fn room(&self) -> Room {
        *lock(&self.room)
    }

    /// Returns whether so little space is left that no more locks may be granted.
    pub fn is_short(&self) -> bool {
        self.is_short.load(Relaxed)
    }

    /// For stores: publishes the space that is left.
    pub fn found(&self, room: Room) {
        self.is_short.store(room.is_short, Relaxed);
        *lock(&self.room) = room;
    }

    /// Returns the disk space of an embedded store that monitors it.
    pub fn disk(&self) -> Option<DiskSpace> {
        *lock(&self.disk)
    }

    /// For embedded stores: publishes the disk space that is left.
    pub fn found_disk(&self, disk: DiskSpace) {
        self.is_short.store(disk.is_low, Relaxed);
        *lock(&self.disk) = Some(disk);
    }

    /// For stores: records that a write failed for lack of space.
    pub fn is_out_of_room(&self) {
        let room = Room { is_short: true, is_out: true, ..self.room() };
        self.found(room);
    }

    /// For stores: records that the store did not respond to a request, and why.
    pub fn is_unanswered(&self, why: String) {
        *lock(&self.unanswered) = why;
    }

    /// Returns why the store last did not respond.
    pub fn why_unanswered(&self) -> String {
        lock(&self.unanswered).clone()
    }

    /// For stores: sets the initial size of the journal that is not in the tables, in bytes.
    pub fn start(&self, n_bytes: u64) {
        self.n_bytes.store(n_bytes, Relaxed);
    }

    /// For stores: records that a record was appended.
    pub fn appended(&self, n_bytes: usize) {
        self.n_bytes.fetch_add(n_bytes as u64, Relaxed);
    }

    /// For stores: records that journal records of this size are in the tables.
    pub fn folded(&self, n_bytes: u64) {
        let less = |n: u64| Some(n.saturating_sub(n_bytes));
        // The closure never returns `None`, so the update always succeeds.
        let _ = self.n_bytes.fetch_update(Relaxed, Relaxed, less);
    }

    /// For stores: records the result of a fold.
    pub fn fold_ended(&self, result: Result<(), &Error>) {
        let Err(error) = result else { return self.n_in_a_row.store(0, Relaxed) };
        *lock(&self.last) = Some(error.to_string());
        self.n_failures.fetch_add(1, Relaxed);
        self.n_in_a_row.fetch_add(1, Relaxed);
    }
}
