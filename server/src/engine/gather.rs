//! When a round waits for more.
//!
//! Whoever was just told something is likely to ask again at once: one who was given a lock gives it back, one who
//! gave it back wants it again. To a store far away they go together in hardly more time than one of them, and
//! whoever comes a moment too late has to wait for twice as long. So a round waits for as many as came back lately, as
//! long as they keep coming. Where nobody comes back it waits for nobody.

use std::time::Duration;

use leasehold_core::{Span, Timestamp};

/// They have ceased to come if nobody has asked for this part of what the last round took.
const QUIET_PART: u64 = 3;
/// And in any case a round waits for no longer than the last one took, or this.
const WAIT_MAX: Span = Span::from_millis(2);
/// How much what came of the last round counts, beside all those before.
const LATEST_PART: f64 = 0.125;

/// Who may still ask before the next round begins.
pub(super) struct Gathering {
    /// What part of those who are told something ask again before another round has ended.
    returning: f64,
    /// So many were told something by the last round, and so many had asked when it ended.
    n_told: usize,
    n_asked: usize,
    /// So many may be expected before the next begins.
    n_expected: usize,
    n_seen: usize,
    /// When more than before had asked.
    seen_at: Timestamp,
    quiet: Span,
    until: Timestamp,
}

/// A round that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// So many questions were in it.
    pub(super) n_taken: usize,
    /// So many were told something by it.
    pub(super) n_told: usize,
    /// So many asked meanwhile.
    pub(super) n_asked: usize,
    /// It took so long.
    pub(super) took: Span,
}

impl Default for Gathering {
    /// Everybody is expected to come back, until it is known better.
    fn default() -> Self {
        Self {
            returning: 1.0,
            n_told: 0,
            n_asked: 0,
            n_expected: 0,
            n_seen: 0,
            seen_at: Timestamp::ZERO,
            quiet: Span::ZERO,
            until: Timestamp::ZERO,
        }
    }
}

impl Gathering {
    pub(super) fn ended(&mut self, round: Ended, now: Timestamp) {
        let Ended { n_taken, n_told, n_asked, took } = round;
        if self.n_told > 0 {
            // Those who came too late for the round have come back too.
            let n_came = (n_taken + n_asked).saturating_sub(self.n_asked);
            let part = (n_came as f64 / self.n_told as f64).min(1.0);
            self.returning += (part - self.returning) * LATEST_PART;
        }
        let n_returning = (n_told as f64 * self.returning).round() as usize;
        *self = Self {
            returning: self.returning,
            n_told,
            n_asked,
            n_expected: n_asked + n_returning,
            n_seen: n_asked,
            seen_at: now,
            quiet: Span::from_nanos(took.as_nanos() / QUIET_PART),
            until: now + took.min(WAIT_MAX),
        };
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

    fn round(n_taken: usize, n_told: usize, n_asked: usize, took_us: u64) -> Ended {
        Ended { n_taken, n_told, n_asked, took: Span::from_nanos(took_us * 1_000) }
    }

    fn after(ended: Ended) -> impl FnMut(usize, u64) -> Option<u128> {
        let mut gathering = Gathering::default();
        gathering.ended(ended, at(0));
        move |n_asked, us| gathering.wait(n_asked, at(us)).map(|left| left.as_micros())
    }

    #[test]
    fn a_round_waits_as_long_as_those_come_who_were_told_something() {
        let mut wait = after(round(3, 3, 0, 1_500));
        assert_eq!(wait(0, 0), None, "nobody has to wait");
        assert_eq!(wait(1, 100), Some(500), "the others may ask too");
        assert_eq!(wait(1, 200), Some(400));
        assert_eq!(wait(2, 300), Some(500), "another has");
        assert_eq!(wait(2, 800), None, "the third does not");
        assert_eq!(wait(3, 400), None, "all have asked");
    }

    #[test]
    fn one_after_the_other_is_not_held_up_and_nobody_for_long() {
        assert_eq!(after(round(1, 1, 0, 1_500))(1, 0), None);
        assert_eq!(after(round(5, 0, 5, 1_500))(5, 0), None, "nobody was told anything");
        assert_eq!(after(round(1, 1, 5, 1_500))(5, 0), Some(500), "the sixth was");
        let mut many = after(round(100, 100, 0, 9_000));
        for n in 1..=10 {
            assert!(many(n as usize, n * 199).is_some(), "they keep coming");
        }
        assert_eq!(many(11, 2_000), None, "but it has been long enough");
    }

    #[test]
    fn where_nobody_comes_back_nobody_waits_for_them() {
        let mut gathering = Gathering::default();
        // Each round tells ten who waited, and one question is all that comes of it.
        for _ in 0..40 {
            gathering.ended(round(1, 10, 0, 1_500), at(0));
        }
        assert!(gathering.wait(1, at(0)).is_none(), "{}", gathering.returning);
        // They come back, too late at first.
        for _ in 0..40 {
            gathering.ended(round(10, 10, 10, 1_500), at(0));
        }
        assert!(gathering.wait(19, at(0)).is_some(), "the last of them is expected");
        assert!(gathering.wait(20, at(0)).is_none());
    }
}
