//! True time, which the servers and clients cannot read, and their clocks.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use leasehold_base::clock::{BootId, Clock};

/// True time in nanoseconds since the start of the run.
pub type Time = u64;

/// One millisecond.
pub const MS: Time = 1_000_000;
/// One second.
pub const SECOND: Time = 1_000 * MS;

/// The rate of a clock: how many millionths it is faster than true time. Negative: slower.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate(pub i64);

impl Rate {
    /// Returns what the clock shows after `span` of true time.
    pub fn shown(self, span: Time) -> Time {
        scale(span, 1_000_000 + self.0, 1_000_000)
    }

    /// Returns how much true time has passed when the clock shows `span`, rounded down.
    pub fn truly(self, span: Time) -> Time {
        scale(span, 1_000_000, 1_000_000 + self.0)
    }
}

fn scale(span: Time, by: i64, of: i64) -> Time {
    (i128::from(span) * i128::from(by) / i128::from(of)) as Time
}

/// The clocks of a server, set by the world.
#[derive(Default)]
pub struct NodeClock {
    boot: AtomicU64,
    boottime: AtomicU64,
    wall_ms: AtomicI64,
}

impl NodeClock {
    /// Sets what the clocks show.
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

/// The clocks of a machine as functions of true time.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    boot: u64,
    booted_at: Time,
    offset: u64,
    rate: Rate,
    wall_offset_ms: i64,
}

impl Machine {
    /// Creates a machine that boots at the start of the run.
    pub fn new(rate: Rate) -> Self {
        Self { boot: 1, booted_at: 0, offset: 5 * SECOND, rate, wall_offset_ms: 1_000_000 }
    }

    /// Creates a machine with this boot number, which has been up for `up` when the run starts.
    pub fn booted(rate: Rate, boot: u64, up: Time) -> Self {
        Self { boot, offset: up, ..Self::new(rate) }
    }

    /// Reboots the machine. Its clocks do not show how much time has passed.
    pub fn reboot(&mut self, now: Time, rate: Rate) {
        *self = Self { boot: self.boot + 1, booted_at: now, offset: 3 * SECOND, rate, ..*self };
    }

    /// Moves the time since boot back, which can happen when a virtual machine is migrated.
    pub fn step_back(&mut self, by: Time) {
        self.offset = self.offset.saturating_sub(by);
    }

    /// Adjusts the wall clock.
    pub fn set_wall(&mut self, by_ms: i64) {
        self.wall_offset_ms += by_ms;
    }

    /// Sets the server's clocks to the true time `now`.
    pub fn show(&self, clock: &NodeClock, now: Time) {
        let boottime = self.offset + self.rate.shown(now - self.booted_at);
        clock.set(self.boot, boottime, (now / MS) as i64 + self.wall_offset_ms);
    }
}
