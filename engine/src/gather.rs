//! When a round waits for more.
//!
//! Whoever was just told something is likely to ask again at once: one who was given a lock gives it back, one who
//! gave it back wants it again. To a store far away they go together in hardly more time than one of them, and
//! whoever comes a moment too late has to wait for twice as long. So a round waits for as many as came back lately, as
//! long as they keep coming. Where nobody comes back it waits for nobody.
//!
//! If half of them or more had waited for a lock, and were given it, it is what they give back that others wait
//! for: the round begins as soon as they have, and whoever wants it again has time until the next.

use std::time::Duration;

use leasehold_core::{Span, Timestamp};

use super::rounds::Gathers;

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
    /// So many of them had waited for what they were given, if that is at least half of them.
    n_woken: Option<usize>,
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
    /// So many were told something by it,
    pub(super) n_told: usize,
    /// of whom so many were given what they had waited for.
    pub(super) n_woken: usize,
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
            n_woken: None,
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
        let Ended { n_taken, n_told, n_woken, n_asked, took } = round;
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
            // One gives it back for each who is given it.
            n_woken: Some(n_woken).filter(|_| n_woken > 0 && 2 * n_woken >= n_told),
            n_expected: n_asked + n_returning,
            n_seen: n_asked,
            seen_at: now,
            quiet: Span::from_nanos(took.as_nanos() / QUIET_PART),
            until: now + took.min(WAIT_MAX),
        };
    }

    /// Whether a round with so many questions, so many of which give something back, is to wait for more.
    pub(super) fn wait(
        &mut self,
        n_asked: usize,
        n_returns: impl FnOnce() -> usize,
        now: Timestamp,
    ) -> Option<Gathers> {
        if n_asked == 0 || n_asked >= self.n_expected {
            return None;
        }
        if self.n_woken.is_some_and(|n_woken| n_returns() >= n_woken) {
            return None;
        }
        if n_asked > self.n_seen {
            (self.n_seen, self.seen_at) = (n_asked, now);
        }
        let left = (self.seen_at + self.quiet).min(self.until).since(now);
        let patience = Duration::from_nanos(left.as_nanos());
        // Each of them may be the one who gives back what others wait for.
        let n_awaited = if self.n_woken.is_some() { n_asked + 1 } else { self.n_expected };
        (!patience.is_zero()).then_some(Gathers { n_awaited, patience })
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
        Ended { n_taken, n_told, n_woken: 0, n_asked, took: Span::from_nanos(took_us * 1_000) }
    }

    fn after(ended: Ended) -> impl FnMut(usize, u64) -> Option<u128> {
        let mut gathering = Gathering::default();
        gathering.ended(ended, at(0));
        move |n_asked, us| {
            let gathers = gathering.wait(n_asked, || 0, at(us));
            gathers.map(|gathers| gathers.patience.as_micros())
        }
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
        assert!(gathering.wait(1, || 0, at(0)).is_none(), "{}", gathering.returning);
        // They come back, too late at first.
        for _ in 0..40 {
            gathering.ended(round(10, 10, 10, 1_500), at(0));
        }
        assert!(gathering.wait(19, || 0, at(0)).is_some(), "the last of them is expected");
        assert!(gathering.wait(20, || 0, at(0)).is_none());
    }

    #[test]
    fn a_round_begins_when_what_others_wait_for_is_given_back() {
        let mut gathering = Gathering::default();
        gathering.ended(Ended { n_woken: 1, ..round(2, 2, 0, 1_500) }, at(0));
        let mut wait = |n_asked, n_returns| gathering.wait(n_asked, || n_returns, at(100));
        let more = wait(1, 0).expect("the lock is still held");
        assert_eq!(
            (more.n_awaited, more.patience.as_micros()),
            (2, 500),
            "the next may release it"
        );
        assert_eq!(
            wait(1, 1),
            None,
            "it was released; whoever had it before comes with the next round"
        );
        // Beside many others it is one of them.
        gathering.ended(Ended { n_woken: 1, ..round(60, 60, 0, 1_500) }, at(0));
        let more = gathering.wait(1, || 1, at(100)).expect("the others come back too");
        assert_eq!(more.n_awaited, 60, "nobody else wakes anybody");
    }
}
