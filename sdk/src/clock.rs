//! The clock leases are counted by: one that goes on while the machine is suspended.
//!
//! `CLOCK_MONOTONIC`, and with it every timer of tokio, stands still during suspend; a lease does not. So the
//! time is read from `CLOCK_BOOTTIME`, and on Linux the alarm is a `timerfd` of that same clock: it is due at the
//! very moment the machine wakes up, where a tokio timer would still sleep the rest of its time. Elsewhere the
//! alarm is a tokio timer that looks at the clock once a second.

use std::fmt;
use std::ops::{Add, Sub};
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;

/// A moment, as time since the machine was started. Moments of different machines cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(Duration);

impl Moment {
    /// A moment that never comes.
    pub const NEVER: Self = Self(Duration::MAX);

    /// So long after the machine was started.
    pub fn from_boot(since_boot: Duration) -> Self {
        Self(since_boot)
    }

    /// How long after the machine was started. `/proc/uptime` counts the same time.
    pub fn since_boot(self) -> Duration {
        self.0
    }

    /// How long after `earlier` this is; nothing if it is before.
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

/// Something to come.
pub type Alarm = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tells the time and waits for it.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The time now.
    fn now(&self) -> Moment;
    /// Completes at `at` or soon after, never before.
    fn sleep_until(&self, at: Moment) -> Alarm;
}

/// The machine's clock.
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
            if clock.now() >= at {
                return;
            }
            #[cfg(target_os = "linux")]
            if at != Moment::NEVER && alarm::ring_at(at).await.is_ok() {
                return;
            }
            // Out of files, or not on Linux.
            while clock.now() < at {
                tokio::time::sleep(at.since(clock.now()).min(TICK)).await;
            }
        })
    }
}

/// How late the coarser alarm can be after a suspend.
const TICK: Duration = Duration::from_secs(1);

#[cfg(target_os = "linux")]
mod alarm {
    use std::io;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use super::Moment;

    pub(super) async fn ring_at(at: Moment) -> io::Result<()> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        let since_boot = at.since_boot();
        let tv_sec = i64::try_from(since_boot.as_secs()).map_err(io::Error::other)?;
        let it_value = Timespec { tv_sec, tv_nsec: since_boot.subsec_nanos().into() };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval, it_value })?;
        // What took its place is `unsafe`, for files that may be closed meanwhile. We own this one.
        #[expect(deprecated, reason = "sound for a file that is owned, and without `unsafe`")]
        let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
        timer.readable().await.map(|_| ())
    }
}

/// A clock that stands still until somebody moves it: for tests.
#[derive(Clone, Debug)]
pub struct FakeClock {
    now: watch::Sender<Moment>,
}

impl Default for FakeClock {
    fn default() -> Self {
        Self { now: watch::Sender::new(Moment(Duration::from_secs(1000))) }
    }
}

impl FakeClock {
    /// Time passes, and whoever waited for it is woken.
    pub fn advance(&self, by: Duration) {
        self.now.send_modify(|now| *now = *now + by);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Moment {
        *self.now.borrow()
    }

    fn sleep_until(&self, at: Moment) -> Alarm {
        let mut now = self.now.subscribe();
        Box::pin(async move {
            // It ends only with the clock, and then nobody can move it any more.
            if now.wait_for(|now| *now >= at).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}
