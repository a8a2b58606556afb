//! The clock that leases are measured with. It keeps counting while the machine is suspended.
//!
//! `CLOCK_MONOTONIC`, and with it every tokio timer, stands still during suspend. A lease does not. So the time is
//! read from `CLOCK_BOOTTIME`. Alarms are tokio timers that read this clock whenever they fire, and whenever the
//! machine resumes.

mod fake;
#[cfg(target_os = "linux")]
mod resume;

use std::fmt;
use std::ops::{Add, Sub};
use std::pin::Pin;
use std::time::Duration;

pub use fake::FakeClock;

/// A moment, as the time since the machine started. Moments of different machines cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(Duration);

impl Moment {
    /// A moment that never comes.
    pub const NEVER: Self = Self(Duration::MAX);

    /// Returns the moment `since_boot` after the machine started.
    pub fn from_boot(since_boot: Duration) -> Self {
        Self(since_boot)
    }

    /// Returns the time from machine start to this moment. `/proc/uptime` counts the same time.
    pub fn since_boot(self) -> Duration {
        self.0
    }

    /// Returns the time from `earlier` to this moment, or zero if `earlier` is later.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, earlier: Duration) -> Self {
        if self == Self::NEVER { self } else { Self(self.0.saturating_sub(earlier)) }
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "boot+{:?}", self.0)
    }
}

/// A future that completes at a set moment.
pub type Alarm = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Reads the time and waits for a moment.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Returns the current time.
    fn now(&self) -> Moment;
    /// Completes at `at` or shortly after, never before.
    fn sleep_until(&self, at: Moment) -> Alarm;
}

/// The machine's clock, `CLOCK_BOOTTIME`.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Moment {
        #[cfg(target_os = "linux")]
        let clock = rustix::time::ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = rustix::time::ClockId::Monotonic;
        let time = rustix::time::clock_gettime(clock);
        Moment(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    fn sleep_until(&self, at: Moment) -> Alarm {
        let clock = *self;
        Box::pin(async move {
            #[cfg(target_os = "linux")]
            let mut resumed = resume::watch();
            while clock.now() < at {
                let tick = tokio::time::sleep(at.since(clock.now()).min(TICK));
                #[cfg(target_os = "linux")]
                tokio::select! {
                    () = tick => {}
                    () = resumed.next() => {}
                }
                #[cfg(not(target_os = "linux"))]
                tick.await;
            }
        })
    }
}

/// Maximum delay of an alarm after a suspend that the resume thread did not detect.
const TICK: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_machines_clock_never_wakes_early() {
        let clock = BootClock;
        for ms in [0, 1, 30] {
            let at = clock.now() + Duration::from_millis(ms);
            clock.sleep_until(at).await;
            assert!(clock.now() >= at);
        }
    }

    #[test]
    fn never_stays_never() {
        let long = Duration::from_secs(1);
        assert_eq!((Moment::NEVER + long, Moment::NEVER - long), (Moment::NEVER, Moment::NEVER));
        assert_eq!(Moment::default() - long, Moment::default());
        assert_eq!(Moment::default().since(Moment::NEVER), Duration::ZERO);
    }
}
