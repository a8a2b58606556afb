//! Records whether a follower can reach the leader. It reports that through the store, which all servers can reach.

use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The number of failed tries after which a leader counts as unreached.
const TRIES_MIN: u32 = 3;
/// Maximum time that counts between the ends of two failed tries. They normally follow each other within 2 seconds. A
/// longer time means that the follower itself was suspended.
const SHARE_MAX: Duration = Duration::from_secs(2);

/// Why a follower cannot pass requests on to the leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    /// There is no response from the leader's address.
    Unreachable,
    /// The leader rejects the follower: the two have different peer secrets.
    WrongSecret,
    /// Another server, which does not lead, responds at the leader's address.
    AnotherServer,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Obstacle::Unreachable => "no answer",
            Obstacle::WrongSecret => "another peer secret",
            Obstacle::AnotherServer => "another server answers there",
        })
    }
}

/// A leader that a follower cannot reach.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreached {
    /// The name of the leader's node.
    pub leader: Box<str>,
    /// The revision of the store in which it became leader.
    pub seat: i64,
    /// The reason.
    pub why: Obstacle,
    /// For how long it has not been reached.
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
    /// The number of failed tries since the last success.
    n_tries: u32,
    /// For how long the tries have failed.
    span: Duration,
    /// When the last failed try ended.
    ended: Instant,
}

impl Tries {
    /// Records a failed try to reach this leader, and when it began and ended.
    pub(super) fn failed(
        &mut self,
        (leader, seat): (&str, i64),
        why: Obstacle,
        (began, ended): (Instant, Instant),
    ) {
        let before = self.failing.take().filter(|failing| failing.seat == seat);
        self.n_runs += u64::from(before.is_none());
        let (n_tries, span, since) = match before {
            Some(Failing { n_tries, span, ended, .. }) => (n_tries, span, ended),
            None => (0, Duration::ZERO, began),
        };
        let span = span + share(since, ended);
        let n_tries = n_tries.saturating_add(1);
        self.failing = Some(Failing { leader: leader.into(), seat, why, n_tries, span, ended });
    }

    /// Records that the leader was reached, or that there is no leader.
    pub(super) fn succeeded(&mut self) {
        self.failing = None;
    }

    pub(super) fn unreached(&self, now: Instant) -> Option<Unreached> {
        let failing = self.failing.as_ref().filter(|failing| failing.n_tries >= TRIES_MIN)?;
        let Failing { leader, seat, why, span, ended, .. } = failing;
        let span = *span + share(*ended, now);
        Some(Unreached { leader: leader.clone(), seat: *seat, why: *why, span, run: self.n_runs })
    }
}

/// Returns how much of the time between two tries counts.
fn share(since: Instant, now: Instant) -> Duration {
    now.saturating_duration_since(since).min(SHARE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHY: Obstacle = Obstacle::Unreachable;

    /// Records failed tries between these times, in milliseconds.
    fn fail(tries: &mut Tries, begin: Instant, seat: i64, each: &[(u64, u64)]) {
        let at = |ms| begin + Duration::from_millis(ms);
        for (began, ended) in each {
            tries.failed(("n1", seat), WHY, (at(*began), at(*ended)));
        }
    }

    #[test]
    fn a_leader_counts_as_unreached_from_the_first_try_that_failed_in_its_seat() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut tries = Tries::default();
        assert_eq!(tries.unreached(at(0)), None);
        fail(&mut tries, begin, 7, &[(1_000, 1_500), (2_500, 3_500)]);
        assert_eq!(tries.unreached(at(3_500)), None, "two tries prove nothing");
        tries.failed(("n1", 7), Obstacle::WrongSecret, (at(4_500), at(4_600)));
        let unreached = tries.unreached(at(5_000)).expect("it failed three times");
        assert_eq!((&*unreached.leader, unreached.seat), ("n1", 7));
        assert_eq!(unreached.why, Obstacle::WrongSecret, "as of the latest try");
        assert_eq!((unreached.span, unreached.run), (Duration::from_secs(4), 1));
        fail(&mut tries, begin, 9, &[(6_000, 6_000), (7_000, 7_000), (8_000, 8_000)]);
        let again = tries.unreached(at(8_500)).expect("it leads again");
        assert_eq!((again.seat, again.span, again.run), (9, Duration::from_millis(2_500), 2));
        tries.succeeded();
        assert_eq!(tries.unreached(at(9_000)), None);
    }

    #[test]
    fn the_time_in_which_a_follower_stands_still_does_not_count() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut tries = Tries::default();
        fail(&mut tries, begin, 7, &[(0, 60_000)]);
        assert_eq!(tries.unreached(at(60_000)), None, "one try, however long");
        fail(&mut tries, begin, 7, &[(61_000, 61_100), (120_000, 120_100)]);
        let unreached = tries.unreached(at(120_100)).expect("it failed three times");
        assert_eq!(unreached.span, Duration::from_millis(2_000 + 1_100 + 2_000));
        let later = tries.unreached(at(180_000)).expect("it is not reached yet");
        assert_eq!(later.span, unreached.span + SHARE_MAX);
    }
}
