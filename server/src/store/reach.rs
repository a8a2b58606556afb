//! Records whether a follower can reach the leader. It reports that through the store, which all servers can reach.

use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Why a follower cannot pass requests on to the leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    /// The leader's address does not answer.
    Unreachable,
    /// The leader rejects the follower: the two have different peer secrets.
    WrongSecret,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Obstacle::Unreachable => "no answer",
            Obstacle::WrongSecret => "another peer secret",
        })
    }
}

/// A leader that a follower cannot reach.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreached {
    /// The name of its node.
    pub leader: Box<str>,
    /// The revision of the store in which it became leader.
    pub seat: i64,
    /// Why.
    pub why: Obstacle,
    /// For how long.
    pub span: Duration,
    /// The number of this run of failed tries in this process.
    pub run: u64,
}

/// The results of a follower's tries to reach the leader.
#[derive(Default)]
pub(super) struct Tries {
    failing: Option<Failing>,
    /// The number of runs of failed tries.
    n_runs: u64,
}

struct Failing {
    leader: Box<str>,
    seat: i64,
    why: Obstacle,
    /// When the first failed try since the last success began.
    since: Instant,
}

impl Tries {
    /// Records a failed try to reach this leader, and when it began.
    pub(super) fn failed(&mut self, (leader, seat): (&str, i64), why: Obstacle, began: Instant) {
        let since = match &self.failing {
            Some(failing) if failing.seat == seat => failing.since,
            _ => {
                self.n_runs += 1;
                began
            }
        };
        self.failing = Some(Failing { leader: leader.into(), seat, why, since });
    }

    /// Records that the leader was reached, or that there is no leader.
    pub(super) fn succeeded(&mut self) {
        self.failing = None;
    }

    pub(super) fn unreached(&self, now: Instant) -> Option<Unreached> {
        let Failing { leader, seat, why, since } = self.failing.as_ref()?;
        let span = now.saturating_duration_since(*since);
        Some(Unreached { leader: leader.clone(), seat: *seat, why: *why, span, run: self.n_runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_counts_as_unreached_from_the_first_try_that_failed_in_its_seat() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut tries = Tries::default();
        assert_eq!(tries.unreached(at(0)), None);
        tries.failed(("n1", 7), Obstacle::Unreachable, at(1_000));
        tries.failed(("n1", 7), Obstacle::WrongSecret, at(3_000));
        let unreached = tries.unreached(at(4_000)).expect("it failed twice");
        assert_eq!((&*unreached.leader, unreached.seat), ("n1", 7));
        assert_eq!(unreached.why, Obstacle::WrongSecret, "as of the latest try");
        assert_eq!((unreached.span, unreached.run), (Duration::from_secs(3), 1));
        tries.failed(("n1", 9), Obstacle::Unreachable, at(5_000));
        let again = tries.unreached(at(5_500)).expect("it leads again");
        assert_eq!((again.seat, again.span, again.run), (9, Duration::from_millis(500), 2));
        tries.succeeded();
        assert_eq!(tries.unreached(at(6_000)), None);
    }
}
