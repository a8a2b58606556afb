//! Detects that the machine was suspended, as soon as it resumes.
//!
//! One thread for the whole process sleeps on `CLOCK_BOOTTIME`, one second at a time. If its second ends during a
//! suspend, it wakes up when the machine resumes and sees that more time has passed than the other timers counted.
//! Then it makes all alarms read the clock. A `timerfd` would do the same for one timer, at the cost of a file
//! descriptor each.

use std::sync::LazyLock;
use std::time::Duration;

use rustix::thread::{NanosleepRelativeResult, clock_nanosleep_relative};
use rustix::time::{ClockId, Timespec, clock_gettime};
use tokio::sync::watch;

/// Tolerated difference between the two clocks, because they are not read at the same instant.
const JITTER: Duration = Duration::from_millis(10);

/// Notifies of every resume.
pub(super) struct Resumed(watch::Receiver<()>);

impl Resumed {
    /// Completes when the machine has resumed since the previous call completed.
    pub(super) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Returns a receiver for every resume from now on.
pub(super) fn watch() -> Resumed {
    static RESUMED: LazyLock<watch::Sender<()>> = LazyLock::new(|| {
        let resumed = watch::Sender::new(());
        let told = resumed.clone();
        // Without this thread, alarms are up to a tick late after a suspend.
        let _ = std::thread::Builder::new()
            .name("leasehold-resume".into())
            .spawn(move || keep_watch(&told));
        resumed
    });
    Resumed(RESUMED.subscribe())
}

fn keep_watch(resumed: &watch::Sender<()>) {
    let second = Timespec { tv_sec: 1, tv_nsec: 0 };
    let mut before = suspended();
    while !matches!(
        clock_nanosleep_relative(ClockId::Boottime, &second),
        NanosleepRelativeResult::Err(_)
    ) {
        let now = suspended();
        if now > before + JITTER {
            resumed.send_replace(());
        }
        before = now;
    }
}

/// Returns how long the machine has been suspended in total since it started.
fn suspended() -> Duration {
    let [boottime, monotonic] = [ClockId::Boottime, ClockId::Monotonic].map(clock_gettime);
    let since = |time: Timespec| Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
    since(boottime).saturating_sub(since(monotonic))
}
