//! The interface through which the engine writes the audit files.

use std::path::Path;

use leasehold_auth::By;
use leasehold_core::{Fact, LockKey};
use leasehold_store::Event;

/// An audit log: records who did what. Its methods write to a file and can block.
pub trait AuditLog: Send + Sync {
    /// Records the start of a server that continues after the record `seq`.
    ///
    /// First writes the lines that are missing because of a crash, from events in the store and older ones from the
    /// history in the directory `data`.
    fn begin(
        &self,
        generation_and_seq: (u64, u64),
        known: &[Event],
        data: Option<&Path>,
        wall_ms: i64,
    );

    /// Writes a line for each fact of a journal record, in order.
    fn tell(&self, generation_and_seq: (u64, u64), facts: &[Fact], at_ms: i64);

    /// Writes lines for events that this server committed as leader and could not audit then. Skips events that are
    /// already in the file.
    fn tell_late(&self, generation: u64, events: &mut dyn Iterator<Item = &Event>);

    /// Does the same as [`AuditLog::tell_late`] for one record.
    fn tell_late_record(&self, generation_and_seq: (u64, u64), facts: &[Fact], at_ms: i64);

    /// Writes a line for a wrong proof of an existing lease, unless there were too many.
    fn mismatched(&self, mismatch: &Mismatch, wall_ms: i64);

    /// Returns whether changes must be refused because they could not be audited.
    fn refuses(&self) -> bool;
}

/// A renewal or release with a wrong proof of an existing lease.
#[derive(Debug)]
pub struct Mismatch {
    /// The caller of the request.
    pub by: By,
    /// The operation of the request.
    pub operation: &'static str,
    /// The lock of the lease.
    pub lock: LockKey,
    /// The number of the lease.
    pub lease: u64,
}
