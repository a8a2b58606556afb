//! What goes wrong between servers and etcd in a run, decided before it begins.

use std::time::Duration;

use leasehold_store::etcd::Snapshots;

use super::NEVER;
use crate::chance::Chance;
use crate::time::{MS, SECOND, Time};

/// How long one try of a call may take.
pub(super) const TRY_MAX: Time = 700 * MS;
/// A message that is late comes within this: long after its sender gave it up, and after its lease is over.
pub(super) const LATE_MAX: Time = 6 * SECOND;

/// The settings of one run.
#[derive(Clone, Debug)]
pub(super) struct Troubles {
    pub(super) n_nodes: usize,
    /// Machines that say they are the same boot.
    pub(super) has_equal_boots: bool,
    /// Calls that do not arrive, of a thousand.
    pub(super) lost: u64,
    /// Calls that are done, but whose answers do not arrive.
    pub(super) unanswered: u64,
    /// Calls that arrive late, and answers.
    pub(super) late: u64,
    /// Calls that arrive twice.
    pub(super) doubled: u64,
    /// Threads that do not get to run for long, of a thousand times they could.
    pub(super) stalled: u64,
    /// Changes that whoever watches is not told of.
    pub(super) unseen: u64,
    /// Mean time between two faults of nodes or of etcd.
    pub(super) fault_every: Time,
    pub(super) snapshots: Snapshots,
    pub(super) compact_every: Duration,
    /// etcd is once put back to what it was.
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

    /// The same nodes, and nothing goes wrong.
    pub(super) fn calm(self) -> Self {
        let (lost, unanswered, late, doubled, stalled) = Default::default();
        let (fault_every, is_put_back) = (NEVER, false);
        Self { lost, unanswered, late, doubled, stalled, fault_every, is_put_back, ..self }
    }
}
