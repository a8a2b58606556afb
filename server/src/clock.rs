//! Lock time from the machine's clocks.
//!
//! Lock time comes from `CLOCK_BOOTTIME`, which counts suspend and cannot be set. A restart on the same boot
//! goes on by exactly the time that passed, so a crash loop extends nothing; on another boot, where that time
//! is unknown, it goes on from the last time written down, so that leases live too long rather than too
//! short. The wall clock is for display only.
//!
//! A time namespace, as containers have them, adds an offset to the time since boot. It is subtracted again, because
//! the next start may be in another one.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_core::{Span, Timestamp, mutant};

/// The machine's clocks.
pub trait Clock: Send + Sync {
    /// Differs between boots of a machine and between machines.
    fn boot_id(&self) -> BootId;
    /// Nanoseconds since boot, suspend included.
    fn boottime(&self) -> u64;
    /// Milliseconds since 1970, as the machine believes.
    fn wall_ms(&self) -> i64;
}

const NANOS_PER_SEC: i64 = 1_000_000_000;

/// Which boot of which machine.
pub type BootId = [u8; 16];

/// A moment by every clock we have: written with every record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// Which boot.
    pub boot_id: BootId,
    /// Nanoseconds since it.
    pub boottime: u64,
    /// Lock time.
    pub lock_time: Timestamp,
    /// Wall clock, for display.
    pub wall_ms: i64,
}

/// The real ones. Systems without `CLOCK_BOOTTIME` use their monotonic clock, which may not count suspend.
pub struct SystemClock {
    boot_id: BootId,
    /// What the time namespace adds to the time since boot, in nanoseconds. It cannot change while we are in it.
    offset: i64,
}

impl SystemClock {
    /// Reads the boot id and the offset once. Where there is no boot id, every start counts as another boot.
    pub fn new() -> Self {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let boot_id = boot_id.and_then(|text| parse_boot_id(text.trim()));
        // Systems without time namespaces have no such file.
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

    fn wall_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        since.as_millis() as i64
    }
}

/// The offset of the time since boot: its line has a name, seconds and nanoseconds.
fn parse_offset(text: &str) -> Option<i64> {
    let mut words = text.lines().find_map(|line| line.strip_prefix("boottime"))?.split_whitespace();
    let [secs, nanos]: [i64; 2] = [words.next()?.parse().ok()?, words.next()?.parse().ok()?];
    secs.checked_mul(NANOS_PER_SEC)?.checked_add(nanos)
}

fn parse_boot_id(text: &str) -> Option<BootId> {
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    u128::from_str_radix(&hex, 16).ok().map(u128::to_be_bytes)
}

/// A clock that stands still until a test moves it.
#[derive(Default)]
pub struct FakeClock {
    boot: AtomicU64,
    boottime: AtomicU64,
    wall_ms: AtomicI64,
}

impl FakeClock {
    /// Time passes.
    pub fn advance(&self, span: Span) {
        self.boottime.fetch_add(span.as_nanos(), Relaxed);
        self.wall_ms.fetch_add(span.as_millis() as i64, Relaxed);
    }

    /// Somebody sets the wall clock.
    pub fn set_wall_ms(&self, wall_ms: i64) {
        self.wall_ms.store(wall_ms, Relaxed);
    }

    /// The machine boots anew: time since boot starts from nothing.
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

    fn wall_ms(&self) -> i64 {
        self.wall_ms.load(Relaxed)
    }
}

/// An instant of this boot, whatever lock time it was: who writes the journal may change, and lock time with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Instant {
    boottime: u64,
}

impl Instant {
    /// How long after another one it is.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.boottime.saturating_sub(earlier.boottime))
    }

    /// So long before.
    pub fn before(self, by: Duration) -> Self {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        Self { boottime: self.boottime.saturating_sub(by) }
    }
}

/// Lock time, going on from where a store left off. All clones are one clock.
#[derive(Clone)]
pub struct LockClock {
    clock: Arc<dyn Clock>,
    boot_id: BootId,
    /// Lock time minus time since boot, in nanoseconds.
    ahead: Arc<AtomicI64>,
    /// Wall clock minus lock time, in milliseconds, as last seen to have changed: the two clocks are never
    /// read at the same instant, and what is shown should not flicker by that.
    offset_ms: Arc<AtomicI64>,
}

/// A smaller change of the offset is jitter.
const OFFSET_JITTER_MS: i64 = 10;

impl LockClock {
    /// Goes on from the last moment a store knows, or from zero.
    pub fn resume(clock: Arc<dyn Clock>, last: Option<Moment>) -> Self {
        let boot_id = clock.boot_id();
        let (ahead, offset_ms) = Default::default();
        let lock_clock = Self { clock, boot_id, ahead, offset_ms };
        lock_clock.go_on(last.unwrap_or_default());
        lock_clock
    }

    /// Goes on from another moment, for every clone.
    pub fn go_on(&self, last: Moment) {
        let boottime = self.clock.boottime();
        let is_known = last.boot_id == self.boot_id;
        let passed = boottime.checked_sub(last.boottime).filter(|_| is_known);
        if is_known && passed.is_none() {
            tracing::warn!("time since boot went backwards; lock time stands still for once");
        }
        let now = last.lock_time + Span::from_nanos(passed.unwrap_or(0));
        self.ahead.store(now.as_nanos().wrapping_sub(boottime) as i64, Relaxed);
        self.offset_ms.store(self.clock.wall_ms() - millis(now), Relaxed);
    }

    /// The instant it is.
    pub fn instant(&self) -> Instant {
        if mutant!(ReceivedByOldClock) {
            return Instant { boottime: self.now().as_nanos() };
        }
        Instant { boottime: self.clock.boottime() }
    }

    /// What lock time it was at an instant, by the clock as it is now.
    pub fn at(&self, instant: Instant) -> Timestamp {
        if mutant!(ReceivedByOldClock) {
            return Timestamp::from_nanos(instant.boottime);
        }
        self.lock_time_at(instant.boottime)
    }

    /// Lock time now.
    pub fn now(&self) -> Timestamp {
        self.lock_time_at(self.clock.boottime())
    }

    /// Now, by every clock.
    pub fn moment(&self) -> Moment {
        let boottime = self.clock.boottime();
        Moment {
            boot_id: self.boot_id,
            boottime,
            lock_time: self.lock_time_at(boottime),
            wall_ms: self.clock.wall_ms(),
        }
    }

    /// A lock time as the wall clock shows or will show it, if nobody sets it.
    pub fn wall_ms_of(&self, at: Timestamp) -> i64 {
        let seen = self.clock.wall_ms() - millis(self.now());
        let mut offset_ms = self.offset_ms.load(Relaxed);
        if (seen - offset_ms).abs() > OFFSET_JITTER_MS {
            offset_ms = seen;
            self.offset_ms.store(seen, Relaxed);
        }
        millis(at).saturating_add(offset_ms)
    }

    fn lock_time_at(&self, boottime: u64) -> Timestamp {
        if mutant!(LockTimeFromWall) {
            return Timestamp::ZERO + Span::from_millis(self.clock.wall_ms().max(0) as u64);
        }
        // Before lock time began there was none.
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
    fn a_restart_on_the_same_boot_goes_on_by_the_time_that_passed() {
        let clock = Arc::new(FakeClock::default());
        let before = LockClock::resume(clock.clone(), None);
        clock.advance(Span::from_secs(10));
        let last = before.moment();
        clock.advance(Span::from_secs(5));
        let after = LockClock::resume(clock.clone(), Some(last));
        assert_eq!(after.now(), Timestamp::ZERO + Span::from_secs(15));
    }

    #[test]
    fn another_boot_goes_on_from_the_last_time_written_down() {
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
    fn an_instant_is_told_by_the_clock_as_it_is_when_it_is_told() {
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
        // Before lock time began there was none.
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
    fn setting_the_wall_clock_changes_what_is_shown_and_nothing_else() {
        let clock = Arc::new(FakeClock::default());
        let lock_clock = LockClock::resume(clock.clone(), None);
        clock.advance(Span::from_secs(10));
        let now = lock_clock.now();
        clock.set_wall_ms(86_400_000);
        assert_eq!(lock_clock.now(), now);
        assert_eq!(lock_clock.wall_ms_of(now + Span::from_secs(1)), 86_401_000);
    }
}
