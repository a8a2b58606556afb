//! The log of a run, for people to read and for comparing two runs of a seed.

use std::fmt;

use crate::time::{MS, Time};

/// The log lines, each with its true time.
#[derive(Default)]
pub struct Trace(String);

impl Trace {
    /// Adds an event.
    pub fn add(&mut self, now: Time, what: fmt::Arguments<'_>) {
        use fmt::Write;
        let (ms, ns) = (now / MS, now % MS);
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{ms:>7}.{ns:06} {what}");
    }

    /// Returns the whole log.
    pub fn into_text(self) -> String {
        self.0
    }
}
