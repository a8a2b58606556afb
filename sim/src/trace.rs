//! A run as text, for people to read and for two runs of a seed to be compared.

use std::fmt;

use crate::time::{MS, Time};

/// Lines, each with its true time.
#[derive(Default)]
pub struct Trace(String);

impl Trace {
    /// Something happened.
    pub fn add(&mut self, now: Time, what: fmt::Arguments<'_>) {
        use fmt::Write;
        let (ms, ns) = (now / MS, now % MS);
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{ms:>7}.{ns:06} {what}");
    }

    /// All of it.
    pub fn into_text(self) -> String {
        self.0
    }
}
