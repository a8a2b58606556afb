//! What kind of run a seed is: everything that is decided before it begins.

use std::time::Duration;

use leasehold_core::{Limits, Mode, Span};
use leasehold_engine::Options;

use crate::chance::Chance;
use crate::time::{MS, Rate, SECOND, Time};

/// Longest a message is under way.
pub const DELAY_MAX: Time = 2 * SECOND;
/// No clock is further off than this, in millionths.
pub const DRIFT_MAX_PPM: i64 = 4_000;
/// While anything can expire the server writes the time down this often.
pub const TICK: Time = SECOND;
/// It gives up if it does not know for so long what became of a record.
const SETTLE_MAX: Time = 4 * SECOND;

/// The settings of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many clients there are.
    pub n_clients: usize,
    /// The locks, each with the modes in which it is asked for.
    pub locks: Vec<&'static [Mode]>,
    /// Faults stop at this time; then everybody must be served or told.
    pub heal_at: Time,
    /// And all is over.
    pub end_at: Time,
    /// What clients subtract from each deadline for drift, in millionths.
    pub margin_ppm: u64,
    drift_ppm: u64,
    /// Every record takes long to be durable.
    pub has_slow_disk: bool,
    /// Messages lost, of a thousand.
    pub lost: u64,
    /// Messages that arrive twice, of a thousand.
    pub doubled: u64,
    /// Messages that take long, of a thousand.
    pub late: u64,
    /// Mean time between two faults of the server.
    pub fault_every: Time,
    /// Mean time between two faults of clients.
    pub client_fault_every: Time,
    /// Clients ask for grace periods now and then.
    pub uses_grace: bool,
    /// Some clients name their requests. What they did is then remembered for long, and nothing forgotten early.
    pub names_requests: bool,
    /// Some clients ask for several locks or none.
    pub uses_groups: bool,
    /// Somebody revokes now and then.
    pub revokes: bool,
    /// The server is once put back to a backup.
    pub restores: bool,
    /// How often the journal is folded.
    pub fold_every: Time,
    sweep_changes_max: usize,
    promote_steps_max: usize,
    batch_max: usize,
    queue_max: usize,
    idle_retention_ms: u64,
    /// Threads that serve connections.
    pub n_workers: usize,
}

const EXCLUSIVE: &[Mode] = &[Mode::Exclusive];
const MIXED: &[Mode] = &[Mode::Shared, Mode::Shared, Mode::Exclusive];
const COUNTED: &[Mode] = &[Mode::Counted(2)];

impl Plan {
    /// The plan of a seed.
    pub fn draw(chance: &mut Chance) -> Self {
        let heal_at = chance.within(20, 45) * SECOND;
        let drifts = chance.permille(600);
        let calm = chance.permille(100);
        let mut locks = vec![EXCLUSIVE];
        let more = [EXCLUSIVE, EXCLUSIVE, MIXED, COUNTED];
        (0..chance.below(5)).for_each(|_| locks.push(chance.pick(&more)));
        Self {
            n_clients: chance.within(3, 10) as usize,
            locks,
            heal_at,
            end_at: heal_at + 900 * SECOND,
            margin_ppm: if drifts { 10_000 } else { 0 },
            drift_ppm: if drifts { DRIFT_MAX_PPM as u64 } else { 0 },
            has_slow_disk: chance.permille(250),
            lost: if calm { 0 } else { chance.below(50) },
            doubled: if calm { 0 } else { chance.below(60) },
            late: if calm { 0 } else { chance.below(60) },
            fault_every: if calm { 60 * SECOND } else { chance.within(1, 10) * SECOND },
            client_fault_every: chance.within(1, 8) * SECOND,
            uses_grace: chance.permille(500),
            names_requests: chance.permille(900),
            uses_groups: chance.permille(600),
            revokes: chance.permille(150),
            restores: chance.permille(150),
            fold_every: chance.within(200, 5_000) * MS,
            sweep_changes_max: chance.pick(&[1, 1, 2, 4, 256]),
            promote_steps_max: chance.pick(&[1, 2, 256, 256]),
            batch_max: chance.pick(&[1, 4, 1024]),
            queue_max: chance.pick(&[4, 64, 1024]),
            idle_retention_ms: chance.pick(&[500, 5_000, 86_400_000]),
            n_workers: chance.pick(&[1, 2, 3]),
        }
    }

    /// How the engine is run.
    pub fn options(&self) -> Options {
        Options {
            limits: self.limits(),
            batch_max: self.batch_max,
            queue_max: self.queue_max,
            sweep_changes_max: self.sweep_changes_max,
            events_max: 100,
            tick: Duration::from_nanos(TICK),
            settle_max: Duration::from_nanos(SETTLE_MAX),
            ..Options::default()
        }
    }

    /// What its machine allows.
    pub fn limits(&self) -> Limits {
        Limits {
            promote_steps_max: self.promote_steps_max,
            idle_retention: Span::from_millis(self.idle_retention_ms),
            ..Limits::default()
        }
    }

    /// At least as long as `span` of one clock takes by any other.
    pub fn at_most(&self, span: Time) -> Time {
        span + span / 1_000_000 * 2 * self.drift_ppm + MS
    }

    /// How long a question may lie before the engine while others have their turn.
    pub fn turn_max(&self) -> Time {
        if self.has_slow_disk { 1_500 * MS } else { 300 * MS }
    }

    /// How fast one more clock runs.
    pub fn rate(&self, chance: &mut Chance) -> Rate {
        let ppm = chance.within(0, 2 * self.drift_ppm) as i64;
        Rate(ppm - self.drift_ppm as i64)
    }
}
