//! Derives lock time, the clock that decides when leases expire, from the machine's clocks.
//!
//! Lock time comes from `CLOCK_BOOTTIME`, which counts suspend and cannot be set. After a restart in the same
//! boot, it advances by exactly the time that passed, so a crash loop extends no lease. After a reboot that time
//! is unknown, so lock time resumes at the last recorded value: leases then last too long rather than too short.
//! The wall clock is for display only.
//!
//! A time namespace, as used by containers, adds an offset to the time since boot. The offset is subtracted,
//! because the next start can be in another namespace.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_core::{Span, Timestamp, mutant};

/// The machine's clocks.
pub trait Clock: Send + Sync {
    /// Returns an id that differs between boots of a machine and between machines.
    fn boot_id(&self) -> BootId;
    /// Returns the nanoseconds since boot, including suspend.
    fn boottime(&self) -> u64;
    /// Returns the wall clock of the machine, in milliseconds since 1970.
    fn wall_ms(&self) -> i64;
}

const NANOS_PER_SEC: i64 = 1_000_000_000;

/// Identifies one boot of one machine.
pub type BootId = [u8; 16];

/// The readings of every clock at one moment. Each journal record contains one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// The boot in which the clocks were read.
    pub boot_id: BootId,
    /// The time since that boot, in nanoseconds.
    pub boottime: u64,
    /// Lock time.
    pub lock_time: Timestamp,
    /// The wall clock in milliseconds since 1970, for display.
    pub wall_ms: i64,
}

/// The machine's real clocks. Systems without `CLOCK_BOOTTIME` use their monotonic clock, which might not count
/// suspend.
pub struct SystemClock {
    boot_id: BootId,
    /// The nanoseconds that the time namespace adds to the time since boot. Constant for the life of the process.
    offset: i64,
}

impl SystemClock {
    /// Reads the boot id and the offset once. On a system without a boot id, every start counts as a new boot.
    pub fn new() -> Self {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let boot_id = boot_id.and_then(|text| parse_boot_id(text.trim()));
        // The file does not exist on systems without time namespaces.
        let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        let offset = parse_offset(&offsets).unwrap_or(0);
        Self { boot_id: boot_id.unwrap_or_else(crate::random::bytes), offset }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn boot_id(&self) -> BootId {
        self.boot_id
    }

    fn boottime(&self) -> u64 {
        #[cfg(target_os = "linux")]
        let clock = rustix::time::ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = rustix::time::ClockId::Monotonic;
        let time = rustix::time::clock_gettime(clock);
        let nanos = time.tv_sec as u64 * NANOS_PER_SEC as u64 + time.tv_nsec as u64;
        nanos.saturating_add_signed(-self.offset)
    }

    #[inline]
    fn wall_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        since.as_millis() as i64
    }
}

/// Returns the boottime offset in nanoseconds. Its line consists of a name, seconds and nanoseconds.
fn parse_offset(text: &str) -> Option<i64> {
    let mut words = text.lines().find_map(|line| line.strip_prefix("boottime"))?.split_whitespace();
    let [secs, nanos]: [i64; 2] = [words.next()?.parse().ok()?, words.next()?.parse().ok()?];
    secs.checked_mul(NANOS_PER_SEC)?.checked_add(nanos)
}

fn parse_boot_id(text: &str) -> Option<BootId> {
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    u128::from_str_radix(&hex, 16).ok().map(u128::to_be_bytes)
}

/// A clock for tests that advances only when the test moves it.
#[derive(Default)]
pub struct FakeClock {
    boot: AtomicU64,
    boottime: AtomicU64,
    wall_ms: AtomicI64,
}

impl FakeClock {
    /// Advances the time since boot and the wall clock.
    pub fn advance(&self, span: Span) {
        self.boottime.fetch_add(span.as_nanos(), Relaxed);
        self.wall_ms.fetch_add(span.as_millis() as i64, Relaxed);
    }

    /// Sets the wall clock.
    pub fn set_wall_ms(&self, wall_ms: i64) {
        self.wall_ms.store(wall_ms, Relaxed);
    }

    /// Simulates a reboot: the boot id changes and the time since boot restarts at zero.
    pub fn reboot(&self) {
        self.boot.fetch_add(1, Relaxed);
        self.boottime.store(0, Relaxed);
    }
}

impl Clock for FakeClock {
    fn boot_id(&self) -> BootId {
        u128::from(self.boot.load(Relaxed)).to_be_bytes()
    }

    fn boottime(&self) -> u64 {
        self.boottime.load(Relaxed)
    }

    #[inline]
    fn wall_ms(&self) -> i64 {
        self.wall_ms.load(Relaxed)
    }
}

/// A point in time of this boot that does not depend on lock time, which a leader change can shift.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Instant {
    boottime: u64,
}

impl Instant {
    /// Returns the time from `earlier` to this instant.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.boottime.saturating_sub(earlier.boottime))
    }

    /// Returns the instant this long before.
    pub fn before(self, by: Duration) -> Self {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        Self { boottime: self.boottime.saturating_sub(by) }
    }
}

/// The clock of lock time, which continues from the last moment in the store. All clones share one state.
#[derive(Clone)]
pub struct LockClock {
    clock: Arc<dyn Clock>,
    boot_id: BootId,
    /// Lock time minus time since boot, in nanoseconds.
    ahead: Arc<AtomicI64>,
    /// Wall clock minus lock time, in milliseconds. Small changes are ignored: the two clocks are never read at
    /// the same instant, and displayed times should not flicker because of that.
    offset_ms: Arc<AtomicI64>,
}

/// Smaller changes of the offset are reading jitter and ignored.
const OFFSET_JITTER_MS: i64 = 10;

impl LockClock {
    /// Continues from the last moment in the store, or from zero.
    pub fn resume(clock: Arc<dyn Clock>, last: Option<Moment>) -> Self {
        let boot_id = clock.boot_id();
        let (ahead, offset_ms) = Default::default();
        let lock_clock = Self { clock, boot_id, ahead, offset_ms };
        lock_clock.go_on(last.unwrap_or_default());
        lock_clock
    }

    /// Continues from another moment. This applies to every clone.
    pub fn go_on(&self, last: Moment) {
        let boottime = self.clock.boottime();
        let is_known = last.boot_id == self.boot_id;
        let passed = boottime.checked_sub(last.boottime).filter(|_| is_known);
        if is_known && passed.is_none() {
            tracing::warn!("time since boot went backwards; lock time stands still once");
        }
        let now = last.lock_time + Span::from_nanos(passed.unwrap_or(0));
        self.ahead.store(now.as_nanos().wrapping_sub(boottime) as i64, Relaxed);
        self.offset_ms.store(self.clock.wall_ms() - millis(now), Relaxed);
    }

    /// Returns the current instant.
    #[inline]
    pub fn instant(&self) -> Instant {
        if mutant!(ReceivedByOldClock) {
            return Instant { boottime: self.now().as_nanos() };
        }
        Instant { boottime: self.clock.boottime() }
    }

    /// Converts an instant to lock time, by the clock as it is set now.
    #[inline]
    pub fn at(&self, instant: Instant) -> Timestamp {
        if mutant!(ReceivedByOldClock) {
            return Timestamp::from_nanos(instant.boottime);
        }
        self.lock_time_at(instant.boottime)
    }

    /// Returns the current lock time.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.lock_time_at(self.clock.boottime())
    }

    /// Returns the current readings of every clock.
    pub fn moment(&self) -> Moment {
        let boottime = self.clock.boottime();
        Moment {
            boot_id: self.boot_id,
            boottime,
            lock_time: self.lock_time_at(boottime),
            wall_ms: self.clock.wall_ms(),
        }
    }

    /// Converts a lock time to wall-clock milliseconds, assuming that the wall clock is not set in the time
    /// between.
    #[inline]
    pub fn wall_ms_of(&self, at: Timestamp) -> i64 {
        let seen = self.clock.wall_ms() - millis(self.now());
        let mut offset_ms = self.offset_ms.load(Relaxed);
        if (seen - offset_ms).abs() > OFFSET_JITTER_MS {
            offset_ms = seen;
            self.offset_ms.store(seen, Relaxed);
        }
        millis(at).saturating_add(offset_ms)
    }

    /// Returns what the wall clock shows now. It decides nothing about locks; credentials expire by it.
    #[inline]
    pub fn wall_ms(&self) -> i64 {
        self.wall_ms_of(self.now())
    }

    #[inline]
    fn lock_time_at(&self, boottime: u64) -> Timestamp {
        if mutant!(LockTimeFromWall) {
            return Timestamp::ZERO + Span::from_millis(self.clock.wall_ms().max(0) as u64);
        }
        // Times before the start of lock time become zero.
        Timestamp::from_nanos(boottime.saturating_add_signed(self.ahead.load(Relaxed)))
    }
}

fn millis(at: Timestamp) -> i64 {
    i64::try_from(at.since(Timestamp::ZERO).as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_on_the_same_boot_advances_by_the_time_that_passed() {
        let clock = Arc::new(FakeClock::default());
        let before = LockClock::resume(clock.clone(), None);
        clock.advance(Span::from_secs(10));
        let last = before.moment();
        clock.advance(Span::from_secs(5));
        let after = LockClock::resume(clock.clone(), Some(last));
        assert_eq!(after.now(), Timestamp::ZERO + Span::from_secs(15));
    }

    #[test]
    fn another_boot_resumes_at_the_last_recorded_time() {
        let clock = Arc::new(FakeClock::default());
        let before = LockClock::resume(clock.clone(), None);
        clock.advance(Span::from_secs(10));
        let last = before.moment();
        clock.reboot();
        clock.advance(Span::from_secs(3600));
        let after = LockClock::resume(clock.clone(), Some(last));
        assert_eq!(after.now(), Timestamp::ZERO + Span::from_secs(10));
    }

    #[test]
    fn an_instant_is_converted_by_the_current_clock_setting() {
        let clock = Arc::new(FakeClock::default());
        let lock_clock = LockClock::resume(clock.clone(), None);
        clock.advance(Span::from_secs(10));
        let (same, instant) = (lock_clock.clone(), lock_clock.instant());
        assert_eq!(same.at(instant), Timestamp::ZERO + Span::from_secs(10));
        clock.advance(Span::from_secs(5));
        let lock_time = Timestamp::ZERO + Span::from_secs(100);
        lock_clock.go_on(Moment { lock_time, ..lock_clock.moment() });
        assert_eq!(same.now(), lock_time);
        assert_eq!(same.at(instant), Timestamp::ZERO + Span::from_secs(95));
        // Times before the start of lock time become zero.
        lock_clock.go_on(Moment { lock_time: Timestamp::ZERO, ..lock_clock.moment() });
        assert_eq!(same.at(instant), Timestamp::ZERO);
    }

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        let text = "monotonic           7         8\nboottime        -3600 500000000\n";
        assert_eq!(parse_offset(text), Some(-3600 * NANOS_PER_SEC + 500_000_000));
        assert_eq!(parse_offset("monotonic 0 0\n"), None);
        assert_eq!(parse_offset(""), None);
    }

    #[test]
    fn setting_the_wall_clock_changes_displayed_times_and_nothing_else() {
        let clock = Arc::new(FakeClock::default());
        let lock_clock = LockClock::resume(clock.clone(), None);
        clock.advance(Span::from_secs(10));
        let now = lock_clock.now();
        clock.set_wall_ms(86_400_000);
        assert_eq!(lock_clock.now(), now);
        assert_eq!(lock_clock.wall_ms_of(now + Span::from_secs(1)), 86_401_000);
    }
}
