//! When a round waits for more.
//!
//! Whoever was just told something is likely to ask again at once: one who was given a lock gives it back, one who
//! gave it back wants it again. To a store far away they go together in hardly more time than one of them, and
//! whoever comes a moment too late has to wait for twice as long. So a round waits as long as they keep coming.

use std::time::Duration;

use leasehold_core::{Span, Timestamp};

/// They have ceased to come if nobody has asked for this part of what the last round took.
const QUIET_PART: u64 = 8;
/// And in any case a round waits for no more than this part of it,
const WAIT_PART: u64 = 2;
/// or this.
const WAIT_MAX: Span = Span::from_millis(2);

/// Who may still ask before the next round begins.
#[derive(Default)]
pub(super) struct Gathering {
    /// So many may be expected: those who have asked, and those who were told something.
    n_expected: usize,
    n_seen: usize,
    /// When more than before had asked.
    seen_at: Timestamp,
    quiet: Span,
    until: Timestamp,
}

impl Gathering {
    /// A round has ended that took so long. So many were told something by it, and so many asked meanwhile.
    pub(super) fn begin(n_told: usize, n_asked: usize, took: Span, now: Timestamp) -> Self {
        Self {
            n_expected: n_told + n_asked,
            n_seen: n_asked,
            seen_at: now,
            quiet: Span::from_nanos(took.as_nanos() / QUIET_PART),
            until: now + Span::from_nanos(took.as_nanos() / WAIT_PART).min(WAIT_MAX),
        }
    }

    /// How long a round is to wait for more than so many questions; `None`: not at all.
    pub(super) fn wait(&mut self, n_asked: usize, now: Timestamp) -> Option<Duration> {
        if n_asked == 0 || n_asked >= self.n_expected {
            return None;
        }
        if n_asked > self.n_seen {
            (self.n_seen, self.seen_at) = (n_asked, now);
        }
        let left = (self.seen_at + self.quiet).min(self.until).since(now);
        (left > Span::ZERO).then(|| Duration::from_nanos(left.as_nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In microseconds.
    fn at(us: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000 + us * 1_000)
    }

    fn after(
        n_told: usize,
        n_asked: usize,
        took_ms: u64,
    ) -> impl FnMut(usize, u64) -> Option<u128> {
        let mut gathering = Gathering::begin(n_told, n_asked, Span::from_millis(took_ms), at(0));
        move |n_asked, us| gathering.wait(n_asked, at(us)).map(|left| left.as_micros())
    }

    #[test]
    fn a_round_waits_as_long_as_those_come_who_were_told_something() {
        let mut wait = after(3, 0, 2);
        assert_eq!(wait(0, 0), None, "nobody has to wait");
        assert_eq!(wait(1, 100), Some(250), "the others may ask too");
        assert_eq!(wait(1, 200), Some(150));
        assert_eq!(wait(2, 300), Some(250), "another has");
        assert_eq!(wait(2, 550), None, "the third does not");
        assert_eq!(wait(3, 400), None, "all have asked");
    }

    #[test]
    fn one_after_the_other_is_not_held_up_and_nobody_for_long() {
        assert_eq!(after(1, 0, 2)(1, 0), None);
        assert_eq!(after(0, 5, 2)(5, 0), None, "nobody was told anything");
        assert_eq!(after(1, 5, 2)(5, 0), Some(250), "the sixth was");
        let mut many = after(100, 0, 8);
        for n in 1..=10 {
            assert!(many(n as usize, n * 199).is_some(), "they keep coming");
        }
        assert_eq!(many(11, 2_000), None, "but it has been long enough");
    }
}
