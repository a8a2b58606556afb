//! The plan of a run: everything that is decided before it starts.

use std::time::Duration;

use leasehold_core::{Limits, Mode, Span};
use leasehold_server::engine::Options;

use crate::chance::Chance;
use crate::time::{MS, Rate, SECOND, Time};

/// Maximum delay of a message.
pub const DELAY_MAX: Time = 2 * SECOND;
/// Maximum drift of a clock, in millionths.
pub const DRIFT_MAX_PPM: i64 = 4_000;
/// How often the server records the time while anything can expire.
pub const TICK: Time = SECOND;
/// How long the server tries to determine the outcome of an append before it gives up.
const SETTLE_MAX: Time = 4 * SECOND;

/// The settings of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number of clients.
    pub n_clients: usize,
    /// The locks, each with the modes in which it is requested.
    pub locks: Vec<&'static [Mode]>,
    /// When faults end. After that, every request must get its response.
    pub heal_at: Time,
    /// When the run ends.
    pub end_at: Time,
    /// The margin for drift that clients subtract from each deadline, in millionths.
    pub margin_ppm: u64,
    drift_ppm: u64,
    /// Whether every record takes long to become durable.
    pub has_slow_disk: bool,
    /// Messages that are lost, out of a thousand.
    pub lost: u64,
    /// Messages that arrive twice, out of a thousand.
    pub doubled: u64,
    /// Messages that arrive late, out of a thousand.
    pub late: u64,
    /// Mean time between two faults of the server.
    pub fault_every: Time,
    /// Mean time between two faults of clients.
    pub client_fault_every: Time,
    /// Whether clients request grace periods.
    pub uses_grace: bool,
    /// Whether some clients use request ids. The server then remembers ended leases for long and forgets nothing early.
    pub names_requests: bool,
    /// Whether some clients acquire several locks together.
    pub uses_groups: bool,
    /// Whether clients revoke leases.
    pub revokes: bool,
    /// Whether the server is once restored from a backup.
    pub restores: bool,
    /// How often the journal is folded.
    pub fold_every: Time,
    sweep_changes_max: usize,
    promote_steps_max: usize,
    batch_max: usize,
    queue_max: usize,
    idle_retention_ms: u64,
    /// The number of threads that serve connections.
    pub n_workers: usize,
}

const EXCLUSIVE: &[Mode] = &[Mode::Exclusive];
const MIXED: &[Mode] = &[Mode::Shared, Mode::Shared, Mode::Exclusive];
const COUNTED: &[Mode] = &[Mode::Counted(2)];

impl Plan {
    /// Draws the plan of a seed.
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

    /// Returns the engine's options.
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

    /// Returns the limits of the machine.
    pub fn limits(&self) -> Limits {
        Limits {
            promote_steps_max: self.promote_steps_max,
            idle_retention: Span::from_millis(self.idle_retention_ms),
            ..Limits::default()
        }
    }

    /// Returns an upper bound of what any other clock shows while one clock shows `span`.
    pub fn at_most(&self, span: Time) -> Time {
        span + span / 1_000_000 * 2 * self.drift_ppm + MS
    }

    /// Returns how long a request can wait for the engine's next round.
    pub fn turn_max(&self) -> Time {
        if self.has_slow_disk { 1_500 * MS } else { 300 * MS }
    }

    /// Draws the rate of a clock.
    pub fn rate(&self, chance: &mut Chance) -> Rate {
        let ppm = chance.within(0, 2 * self.drift_ppm) as i64;
        Rate(ppm - self.drift_ppm as i64)
    }
}
