//! True time, which nobody in the world can read, and the clocks that run beside it.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use leasehold_base::clock::{BootId, Clock};

/// Nanoseconds of true time since the run began.
pub type Time = u64;

/// One millisecond.
pub const MS: Time = 1_000_000;
/// One second.
pub const SECOND: Time = 1_000 * MS;

/// How fast a clock runs: so many millionths faster than true time, or slower.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate(pub i64);

impl Rate {
    /// What the clock shows to have passed when `span` has.
    pub fn shown(self, span: Time) -> Time {
        scale(span, 1_000_000 + self.0, 1_000_000)
    }

    /// How much has truly passed when the clock shows `span`; rounded down.
    pub fn truly(self, span: Time) -> Time {
        scale(span, 1_000_000, 1_000_000 + self.0)
    }
}

fn scale(span: Time, by: i64, of: i64) -> Time {
    (i128::from(span) * i128::from(by) / i128::from(of)) as Time
}

/// The server's clocks, moved by the world.
#[derive(Default)]
pub struct NodeClock {
    boot: AtomicU64,
    boottime: AtomicU64,
    wall_ms: AtomicI64,
}

impl NodeClock {
    /// What all of them show now.
    pub fn set(&self, boot: u64, boottime: u64, wall_ms: i64) {
        self.boot.store(boot, Relaxed);
        self.boottime.store(boottime, Relaxed);
        self.wall_ms.store(wall_ms, Relaxed);
    }
}

impl Clock for NodeClock {
    fn boot_id(&self) -> BootId {
        u128::from(self.boot.load(Relaxed)).to_be_bytes()
    }

    fn boottime(&self) -> u64 {
        self.boottime.load(Relaxed)
    }

    fn wall_ms(&self) -> i64 {
        self.wall_ms.load(Relaxed)
    }
}

/// A machine's clocks as functions of true time.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    boot: u64,
    booted_at: Time,
    offset: u64,
    rate: Rate,
    wall_offset_ms: i64,
}

impl Machine {
    /// Booted at the beginning.
    pub fn new(rate: Rate) -> Self {
        Self { boot: 1, booted_at: 0, offset: 5 * SECOND, rate, wall_offset_ms: 1_000_000 }
    }

    /// The boot of this number, which was so long ago when the run began.
    pub fn booted(rate: Rate, boot: u64, up: Time) -> Self {
        Self { boot, offset: up, ..Self::new(rate) }
    }

    /// Boots anew: nobody can tell how much time passed.
    pub fn reboot(&mut self, now: Time, rate: Rate) {
        *self = Self { boot: self.boot + 1, booted_at: now, offset: 3 * SECOND, rate, ..*self };
    }

    /// Time since boot goes back, as it never should: a virtual machine was moved.
    pub fn step_back(&mut self, by: Time) {
        self.offset = self.offset.saturating_sub(by);
    }

    /// Somebody sets the wall clock.
    pub fn set_wall(&mut self, by_ms: i64) {
        self.wall_offset_ms += by_ms;
    }

    /// Moves what the server sees to `now`.
    pub fn show(&self, clock: &NodeClock, now: Time) {
        let boottime = self.offset + self.rate.shown(now - self.booted_at);
        clock.set(self.boot, boottime, (now / MS) as i64 + self.wall_offset_ms);
    }
}
