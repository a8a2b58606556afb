//! The troubles between servers and etcd, drawn before a run starts.

use std::time::Duration;

use leasehold_store::shared::Snapshots;

use super::NEVER;
use crate::chance::Chance;
use crate::time::{MS, SECOND, Time};

/// The time limit of one attempt of a call.
pub(super) const TRY_MAX: Time = 700 * MS;
/// The maximum delay of a late message: long after its sender has stopped waiting and its lease has expired.
pub(super) const LATE_MAX: Time = 6 * SECOND;

/// The settings of one run.
#[derive(Clone, Debug)]
pub(super) struct Troubles {
    pub(super) n_nodes: usize,
    /// Whether several machines report the same boot id.
    pub(super) has_equal_boots: bool,
    /// Calls that do not arrive, out of a thousand.
    pub(super) lost: u64,
    /// Calls that take effect without a response, out of a thousand.
    pub(super) unanswered: u64,
    /// Calls and responses that arrive late, out of a thousand.
    pub(super) late: u64,
    /// Calls that arrive twice, out of a thousand.
    pub(super) doubled: u64,
    /// Responses after which the thread is suspended for long, out of a thousand.
    pub(super) stalled: u64,
    /// Changes that a watching node is not notified of, out of a thousand.
    pub(super) unseen: u64,
    /// Mean time between two faults of nodes or of etcd.
    pub(super) fault_every: Time,
    pub(super) snapshots: Snapshots,
    pub(super) compact_every: Duration,
    /// Whether etcd is rolled back once.
    pub(super) is_put_back: bool,
}

impl Troubles {
    pub(super) fn draw(chance: &mut Chance) -> Self {
        let calm = chance.permille(100);
        let mut of_thousand = |max: u64| if calm { 0 } else { chance.below(max) };
        let (lost, unanswered) = (of_thousand(30), of_thousand(40));
        let (late, doubled, stalled) = (of_thousand(30), of_thousand(50), of_thousand(8));
        Self {
            n_nodes: chance.within(2, 3) as usize,
            has_equal_boots: chance.permille(300),
            lost,
            unanswered,
            late,
            doubled,
            stalled,
            unseen: chance.pick(&[0, 100, 500, 1000]),
            fault_every: if calm { 20 * SECOND } else { chance.within(1_000, 9_000) * MS },
            snapshots: Snapshots {
                bytes_per_second: chance.pick(&[100_000, u64::MAX]),
                ..Snapshots::every(chance.pick(&[8, 20, 60, 1_000_000]))
            },
            compact_every: Duration::from_secs(chance.pick(&[1, 5, 60])),
            is_put_back: chance.permille(120),
        }
    }

    /// Returns the same nodes without any troubles.
    pub(super) fn calm(self) -> Self {
        let (lost, unanswered, late, doubled, stalled) = Default::default();
        let (fault_every, is_put_back) = (NEVER, false);
        Self { lost, unanswered, late, doubled, stalled, fault_every, is_put_back, ..self }
    }
}
