//! Decides how long to delay a round so that it commits more requests.
//!
//! A client that has just received a response usually sends its next request right away: it releases the lock it was
//! granted, or re-acquires the one it released. With a remote store, committing many requests takes hardly longer than
//! committing one, and a request that misses a round waits about twice as long. So a round waits for as many requests
//! as recent rounds predict, while they keep arriving. If clients do not return, it does not wait.
//!
//! Exception: if at least half of the clients just answered had been waiting for the lock they got, other waiters
//! depend on their releases. The round then starts as soon as those releases are in.

use std::time::Duration;

use leasehold_core::{Span, Timestamp};

use super::rounds::Gathers;

/// If no request arrives for this fraction of the last round's duration, the round starts.
const QUIET_PART: u64 = 3;
/// Maximum delay of a round. The duration of the last round is also a maximum.
const WAIT_MAX: Span = Span::from_millis(2);
/// Weight of the latest round in the running average of returning clients.
const LATEST_PART: f64 = 0.125;

/// Predicts how many requests arrive before the next round.
pub(super) struct Gathering {
    /// Fraction of the answered clients that send another request before the next round ends (running average).
    returning: f64,
    /// Number of clients answered by the last round. `n_asked` is the number of requests queued when it ended.
    n_told: usize,
    n_asked: usize,
    /// How many of them were granted a lock they had waited for, if that is at least half of them.
    n_woken: Option<usize>,
    /// Expected number of requests for the next round.
    n_expected: usize,
    n_seen: usize,
    /// When the number of queued requests last grew.
    seen_at: Timestamp,
    quiet: Span,
    until: Timestamp,
}

/// A finished round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// Number of requests in the round.
    pub(super) n_taken: usize,
    /// Number of clients it answered.
    pub(super) n_told: usize,
    /// How many of them were granted a lock they had waited for.
    pub(super) n_woken: usize,
    /// Number of requests that arrived in the meantime.
    pub(super) n_asked: usize,
    /// Duration of the round.
    pub(super) took: Span,
}

impl Default for Gathering {
    /// Assumes that every client returns, until measurements show otherwise.
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
            // Clients whose requests arrived too late for the round have returned too.
            let n_came = (n_taken + n_asked).saturating_sub(self.n_asked);
            let part = (n_came as f64 / self.n_told as f64).min(1.0);
            self.returning += (part - self.returning) * LATEST_PART;
        }
        let n_returning = (n_told as f64 * self.returning).round() as usize;
        *self = Self {
            returning: self.returning,
            n_told,
            n_asked,
            // The next round expects one release for each of these grants.
            n_woken: Some(n_woken).filter(|_| n_woken > 0 && 2 * n_woken >= n_told),
            n_expected: n_asked + n_returning,
            n_seen: n_asked,
            seen_at: now,
            quiet: Span::from_nanos(took.as_nanos() / QUIET_PART),
            until: now + took.min(WAIT_MAX),
        };
    }

    /// Returns how long to wait for more requests, or `None` to start the round now.
    ///
    /// `n_asked` is the number of queued requests; `n_returns` counts the releases among them.
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
        // If other waiters depend on releases, any further request might be one.
        let n_awaited = if self.n_woken.is_some() { n_asked + 1 } else { self.n_expected };
        (!patience.is_zero()).then_some(Gathers { n_awaited, patience })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts microseconds to a timestamp.
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
    fn a_round_waits_while_answered_clients_return() {
        let mut wait = after(round(3, 3, 0, 1_500));
        assert_eq!(wait(0, 0), None, "no request is queued");
        assert_eq!(wait(1, 100), Some(500), "the others may ask too");
        assert_eq!(wait(1, 200), Some(400));
        assert_eq!(wait(2, 300), Some(500), "another has");
        assert_eq!(wait(2, 800), None, "the third does not");
        assert_eq!(wait(3, 400), None, "all have asked");
    }

    #[test]
    fn sequential_requests_are_not_delayed_and_no_delay_is_long() {
        assert_eq!(after(round(1, 1, 0, 1_500))(1, 0), None);
        assert_eq!(after(round(5, 0, 5, 1_500))(5, 0), None, "no client was answered");
        assert_eq!(after(round(1, 1, 5, 1_500))(5, 0), Some(500), "the sixth was");
        let mut many = after(round(100, 100, 0, 9_000));
        for n in 1..=10 {
            assert!(many(n as usize, n * 199).is_some(), "they keep coming");
        }
        assert_eq!(many(11, 2_000), None, "but it has been long enough");
    }

    #[test]
    fn a_round_does_not_wait_for_clients_that_do_not_return() {
        let mut gathering = Gathering::default();
        // Each round answers ten waiters, and only one of them sends another request.
        for _ in 0..40 {
            gathering.ended(round(1, 10, 0, 1_500), at(0));
        }
        assert!(gathering.wait(1, || 0, at(0)).is_none(), "{}", gathering.returning);
        // All of them return, too late at first.
        for _ in 0..40 {
            gathering.ended(round(10, 10, 10, 1_500), at(0));
        }
        assert!(gathering.wait(19, || 0, at(0)).is_some(), "the last of them is expected");
        assert!(gathering.wait(20, || 0, at(0)).is_none());
    }

    #[test]
    fn a_round_starts_once_the_awaited_locks_are_released() {
        let mut gathering = Gathering::default();
        gathering.ended(Ended { n_woken: 1, ..round(2, 2, 0, 1_500) }, at(0));
        let mut wait = |n_asked, n_returns| gathering.wait(n_asked, || n_returns, at(100));
        let more = wait(1, 0).expect("the lock is still held");
        assert_eq!(
            (more.n_awaited, more.patience.as_micros()),
            (2, 500),
            "the next may release it"
        );
        assert_eq!(wait(1, 1), None, "it was released; its last holder comes with the next round");
        // One waiter among many other clients does not count.
        gathering.ended(Ended { n_woken: 1, ..round(60, 60, 0, 1_500) }, at(0));
        let more = gathering.wait(1, || 1, at(100)).expect("the others come back too");
        assert_eq!(more.n_awaited, 60, "fewer requests do not wake the thread");
    }
}
