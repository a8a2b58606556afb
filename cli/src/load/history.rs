//! Records which client held each lock when, and all writes, and counts the guarantees that the judge finds broken.
//!
//! The history is independent of the server: the clients report events according to their own clocks and deadlines.

use std::fmt;
use std::mem::discriminant;

use leasehold::Moment;
use leasehold_judge::{Conflict, Exclusion, Fence, Mode, Tokens, Writer};
use serde::Serialize;

/// Number of breaches of each kind that are kept for the report. All are counted.
const SHOWN_MAX: usize = 3;

/// A broken guarantee.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(super) enum Breach {
    /// Two clients were certain to hold the lock at the same time.
    TwoHolders { token: u64, other: u64 },
    /// A later grant did not have a higher token.
    TokenNotGrown { token: u64, before: u64 },
    /// A write was accepted after a write with a higher token.
    StaleWriteAccepted { token: u64, newest: u64 },
    /// The write of a client that certainly held the lock was rejected.
    HolderTurnedAway { token: u64, newest: u64 },
    /// A renewal succeeded after the lease had ended.
    StaleRenewalAccepted { token: u64 },
    /// A release succeeded after the lease had ended.
    StaleReleaseAccepted { token: u64 },
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Breach::TwoHolders { token, other } => {
                write!(f, "tokens {other} and {token} were held at the same time")
            }
            Breach::TokenNotGrown { token, before } => {
                write!(f, "token {token} was granted after token {before}")
            }
            Breach::StaleWriteAccepted { token, newest } => {
                write!(f, "a write with token {token} was accepted after one with {newest}")
            }
            Breach::HolderTurnedAway { token, newest } => {
                write!(f, "the holder of token {token} was rejected: {newest} had written")
            }
            Breach::StaleRenewalAccepted { token } => {
                write!(f, "the lease of token {token} was renewed after its end")
            }
            Breach::StaleReleaseAccepted { token } => {
                write!(f, "the lease of token {token} was released after its end")
            }
        }
    }
}

/// The histories of all locks of a run, indexed by lock number.
#[derive(Debug)]
pub(super) struct History {
    locks: Vec<LockHistory>,
    /// The first few breaches of each kind, with the number of the lock.
    pub(super) breaches: Vec<(usize, Breach)>,
    pub(super) n_breaches: u64,
}

/// The records of one lock. A lease is known by its token.
#[derive(Clone, Debug, Default)]
struct LockHistory {
    tokens: Tokens,
    fence: Fence<u64, u64>,
    holders: Exclusion<u64, Moment>,
}

impl History {
    pub(super) fn new(n_locks: usize) -> Self {
        let locks = vec![LockHistory::default(); n_locks];
        Self { locks, breaches: Vec::new(), n_breaches: 0 }
    }

    /// Records that a client certainly holds the lock from `at`. Calls must be in chronological order.
    pub(super) fn begin(&mut self, lock: usize, token: u64, at: Moment) {
        let history = &mut self.locks[lock];
        let before = history.tokens.highest();
        let has_grown = history.tokens.granted(token, before);
        let conflict = history.holders.begin(token, Mode::Exclusive, at);
        if !has_grown {
            self.breach(lock, Breach::TokenNotGrown { token, before });
        }
        self.two_holders(lock, conflict);
    }

    /// Records that the holder of `token` certainly holds the lock until `until`, which can be in the future.
    pub(super) fn end(&mut self, lock: usize, token: u64, until: Moment) {
        let conflicts = self.locks[lock].holders.end(token, until);
        self.two_holders(lock, conflicts);
    }

    fn two_holders(
        &mut self,
        lock: usize,
        conflicts: impl IntoIterator<Item = Conflict<u64, Moment>>,
    ) {
        for Conflict { id: token, others, .. } in conflicts {
            let other = others.last().copied().unwrap_or_default();
            self.breach(lock, Breach::TwoHolders { token, other });
        }
    }

    /// Records an accepted write. Calls must be in the order of the writes.
    pub(super) fn wrote(&mut self, lock: usize, token: u64) {
        let writer = Writer { id: token, earliest: token, latest: token };
        if let Some(newest) = self.locks[lock].fence.accepted(writer) {
            self.breach(lock, Breach::StaleWriteAccepted { token, newest });
        }
    }

    /// Records a broken guarantee.
    pub(super) fn breach(&mut self, lock: usize, breach: Breach) {
        self.n_breaches += 1;
        let is_alike = |(_, other): &&_| discriminant(other) == discriminant(&breach);
        if self.breaches.iter().filter(is_alike).count() < SHOWN_MAX {
            self.breaches.push((lock, breach));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_boot(Duration::from_millis(ms))
    }

    /// Checks that a sequence of events on one lock leads to exactly these breaches.
    #[track_caller]
    fn check(story: impl FnOnce(&mut History), expected: &[Breach]) {
        let mut history = History::new(1);
        story(&mut history);
        let found: Vec<_> = history.breaches.iter().map(|(_, breach)| *breach).collect();
        assert_eq!(found, expected);
        assert_eq!(history.n_breaches, expected.len() as u64);
    }

    #[test]
    fn one_after_the_other_is_fine() {
        check(
            |history| {
                for n in 1..1000 {
                    history.begin(0, n, at(n * 10));
                    history.wrote(0, n);
                    history.end(0, n, at(n * 10 + 10));
                }
            },
            &[],
        );
    }

    #[test]
    fn two_holders_at_once_are_seen_when_the_first_one_ends() {
        check(
            |history| {
                history.begin(0, 1, at(10));
                history.begin(0, 2, at(20));
                history.end(0, 2, at(25));
                history.end(0, 1, at(21));
            },
            &[Breach::TwoHolders { token: 2, other: 1 }],
        );
    }

    #[test]
    fn two_holders_at_once_are_seen_when_the_second_one_begins() {
        check(
            |history| {
                history.begin(0, 1, at(10));
                // The client crashed: it counts as the holder until its deadline, which is in the future.
                history.end(0, 1, at(100));
                history.begin(0, 2, at(99));
                history.end(0, 2, at(100));
                history.begin(0, 3, at(100));
            },
            &[Breach::TwoHolders { token: 2, other: 1 }],
        );
    }

    #[test]
    fn one_who_learns_late_that_it_had_lost_was_not_a_second_holder() {
        check(
            |history| {
                history.begin(0, 1, at(10));
                history.begin(0, 2, at(20));
                history.end(0, 1, at(20));
                history.end(0, 2, at(30));
            },
            &[],
        );
    }

    #[test]
    fn a_token_that_does_not_grow_is_seen_whether_repeated_or_smaller() {
        check(
            |history| {
                for (n, token) in [(1, 5), (2, 5), (3, 4), (4, 6)] {
                    history.begin(0, token, at(n * 10));
                    history.end(0, token, at(n * 10 + 1));
                }
            },
            &[
                Breach::TokenNotGrown { token: 5, before: 5 },
                Breach::TokenNotGrown { token: 4, before: 5 },
            ],
        );
    }

    #[test]
    fn a_write_that_came_through_after_a_newer_one_is_seen() {
        check(
            |history| {
                history.wrote(0, 7);
                history.wrote(0, 7);
                history.wrote(0, 8);
                history.wrote(0, 7);
            },
            &[Breach::StaleWriteAccepted { token: 7, newest: 8 }],
        );
    }

    #[test]
    fn locks_are_judged_apart_and_all_breaches_are_counted() {
        let mut history = History::new(2);
        history.begin(0, 1, at(1));
        history.begin(1, 1, at(1));
        assert_eq!(history.n_breaches, 0);
        for token in 0..100 {
            history.breach(1, Breach::StaleReleaseAccepted { token });
            history.breach(0, Breach::StaleRenewalAccepted { token });
        }
        assert_eq!((history.n_breaches, history.breaches.len()), (200, 2 * SHOWN_MAX));
    }
}
