//! Limits how often a repeating log line is written.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::sync::lock;

/// Minimum time between two lines.
const EVERY: Duration = Duration::from_secs(10);

/// A log line that might repeat.
#[derive(Default)]
pub struct Complaint(Mutex<Made>);

#[derive(Default)]
struct Made {
    last: Option<Instant>,
    n_left_out: u64,
}

impl Complaint {
    /// Calls `write` to log the line, unless one was logged less than 10 seconds ago. `write` gets the number of
    /// lines suppressed since then.
    pub fn make(&self, write: impl FnOnce(u64)) {
        self.make_at(Instant::now(), write);
    }

    fn make_at(&self, now: Instant, write: impl FnOnce(u64)) {
        let mut made = lock(&self.0);
        if made.last.is_some_and(|last| now.saturating_duration_since(last) < EVERY) {
            made.n_left_out += 1;
            return;
        }
        let n_left_out = std::mem::take(&mut made.n_left_out);
        made.last = Some(now);
        drop(made);
        write(n_left_out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeating_line_is_limited_and_reports_the_number_of_suppressed_lines() {
        let (complaint, begin) = (Complaint::default(), Instant::now());
        let mut written = Vec::new();
        for ms in [0, 1, 9_999, 10_000, 10_001, 30_000] {
            let now = begin + Duration::from_millis(ms);
            complaint.make_at(now, |n_left_out| written.push((ms, n_left_out)));
        }
        assert_eq!(written, [(0, 0), (10_000, 2), (30_000, 1)]);
    }
}
