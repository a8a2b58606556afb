//! Decides when a leader that the other servers cannot reach hands over, and how long it does not lead again.

use std::collections::BTreeMap;
use std::time::Duration;

/// If most of the other servers have not reached the leader for this time, it hands over.
const UNREACHED_MAX: Duration = Duration::from_secs(5);
/// How long a server does not lead again after its first handover.
const BACK_OFF_MIN: Duration = Duration::from_secs(10);
/// The time doubles with each handover, up to this.
const BACK_OFF_MAX: Duration = Duration::from_secs(640);
/// After this time without a handover, the next one counts as the first.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(1800);

/// Another server, as described by its key.
pub(super) struct Other {
    pub(super) node: String,
    /// How long this server had been unable to reach the leader when it last wrote its key. `None` if it could reach
    /// the leader, or if its report is about another leader.
    pub(super) unreached: Option<Duration>,
    pub(super) may_lead: bool,
}

/// The reports of the other servers about this leader.
#[derive(Default)]
pub(super) struct Reports {
    /// The report of each server, and when it was first read.
    since: BTreeMap<String, (Duration, Duration)>,
}

/// Which servers cannot reach the leader, and the decision.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Judgement {
    /// The servers that report that they cannot reach it, for however short a time.
    pub(super) unreached_by: Vec<String>,
    /// How many other servers there are.
    pub(super) n_others: usize,
    pub(super) hands_over: bool,
}

impl Reports {
    /// Judges the keys of the other servers at this time. A server writes its key only when something changes, so a
    /// report counts until it is replaced. A server that is gone has no key and no vote.
    pub(super) fn judge(&mut self, now: Duration, others: &[Other]) -> Judgement {
        let reporting = |other: &Other| Some((other.node.clone(), other.unreached?));
        let reports: Vec<_> = others.iter().filter_map(reporting).collect();
        self.since.retain(|node, _| reports.iter().any(|(reporter, _)| reporter == node));
        let mut n_long = 0;
        for (node, unreached) in &reports {
            let known = self.since.entry(node.clone()).or_insert((*unreached, now));
            if known.0 != *unreached {
                // The report has changed.
                *known = (*unreached, now);
            }
            let span = known.0 + now.saturating_sub(known.1);
            n_long += usize::from(span >= UNREACHED_MAX);
        }
        let n_others = others.len();
        let is_majority = n_long * 2 > n_others;
        let hands_over = is_majority && others.iter().any(|other| other.may_lead);
        let unreached_by = reports.into_iter().map(|(node, _)| node).collect();
        Judgement { unreached_by, n_others, hands_over }
    }
}

/// How long a server that hands over does not lead again.
#[derive(Clone, Copy, Default)]
pub(super) struct BackOff {
    /// The number of handovers in a row, and the time of the last one.
    last: Option<(u32, Duration)>,
}

impl BackOff {
    /// Records a handover now. Returns how long the server does not lead again.
    pub(super) fn hands_over(&mut self, now: Duration) -> Duration {
        let before = self.last.filter(|(_, at)| now.saturating_sub(*at) < FORGOTTEN_AFTER);
        let n = before.map_or(0, |(n, _)| n.saturating_add(1));
        self.last = Some((n, now));
        BACK_OFF_MIN.saturating_mul(1 << n.min(16)).min(BACK_OFF_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn other(node: &str, unreached_ms: Option<u64>) -> Other {
        let unreached = unreached_ms.map(Duration::from_millis);
        Other { node: node.into(), unreached, may_lead: true }
    }

    fn hands_over(others: &[Other]) -> bool {
        Reports::default().judge(SECOND, others).hands_over
    }

    #[test]
    fn a_leader_hands_over_when_most_of_the_others_have_not_reached_it_for_5_seconds() {
        let (reaches, fails) = (|node| other(node, None), |node| other(node, Some(5_000)));
        assert!(!hands_over(&[]), "it is alone");
        assert!(!hands_over(&[reaches("b")]));
        assert!(hands_over(&[fails("b")]));
        assert!(!hands_over(&[fails("b"), reaches("c")]), "half is no majority");
        assert!(hands_over(&[fails("b"), fails("c")]));
        assert!(!hands_over(&[other("b", Some(4_999)), fails("c")]));
        assert!(hands_over(&[fails("b"), fails("c"), reaches("d")]));
        assert!(!hands_over(&[fails("b"), fails("c"), reaches("d"), reaches("e")]));
        let follows = |node| Other { may_lead: false, ..fails(node) };
        assert!(!hands_over(&[follows("b"), follows("c")]), "none of them would lead");
        assert!(hands_over(&[follows("b"), fails("c")]));
    }

    #[test]
    fn a_report_goes_on_counting_until_it_is_withdrawn() {
        let mut reports = Reports::default();
        let fails = || [other("b", Some(1_000)), other("c", None)];
        let two = || [other("b", Some(1_000)), other("c", Some(0))];
        let judged = reports.judge(10 * SECOND, &fails());
        assert_eq!((judged.unreached_by, judged.n_others), (vec!["b".to_owned()], 2));
        assert!(!reports.judge(12 * SECOND, &two()).hands_over);
        assert!(!reports.judge(16 * SECOND, &two()).hands_over, "c has not for 4 seconds only");
        assert!(reports.judge(17 * SECOND, &two()).hands_over);
        // It has reached the leader in between, so the time starts again.
        let reached = [other("b", None), other("c", Some(0))];
        assert!(!reports.judge(18 * SECOND, &reached).hands_over);
        let again = [other("b", Some(1_000)), other("c", Some(0))];
        assert!(!reports.judge(19 * SECOND, &again).hands_over);
        assert!(reports.judge(23 * SECOND, &again).hands_over);
    }

    #[test]
    fn who_handed_over_leads_again_later_each_time() {
        let mut back_off = BackOff::default();
        let mut now = SECOND;
        let mut seconds = Vec::new();
        for _ in 0..9 {
            seconds.push(back_off.hands_over(now).as_secs());
            now += 700 * SECOND;
        }
        assert_eq!(seconds, [10, 20, 40, 80, 160, 320, 640, 640, 640]);
        assert_eq!(back_off.hands_over(now + FORGOTTEN_AFTER).as_secs(), 10, "that was long ago");
    }
}
