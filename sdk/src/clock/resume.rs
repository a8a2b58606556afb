//! Noticing that the machine was suspended, as soon as it is not any more.
//!
//! One thread for the whole process sleeps on `CLOCK_BOOTTIME`, second by second. If its second is over during a
//! suspend, it wakes up with the machine, sees that more time has passed than the other timers have counted, and
//! tells them all to look at the clock. A `timerfd` would do the same for one timer and cost a file for each.

use std::sync::LazyLock;
use std::time::Duration;

use rustix::thread::{NanosleepRelativeResult, clock_nanosleep_relative};
use rustix::time::{ClockId, Timespec, clock_gettime};
use tokio::sync::watch;

/// The two clocks are not read at the same instant.
const JITTER: Duration = Duration::from_millis(10);

/// Tells of every resume.
pub(super) struct Resumed(watch::Receiver<()>);

impl Resumed {
    /// Completes when the machine was resumed since the last time it did.
    pub(super) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// From now on.
pub(super) fn watch() -> Resumed {
    static RESUMED: LazyLock<watch::Sender<()>> = LazyLock::new(|| {
        let resumed = watch::Sender::new(());
        let told = resumed.clone();
        // Without the thread, timers are late by up to a tick after a suspend.
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

/// How long the machine was suspended since it was started.
fn suspended() -> Duration {
    let [boottime, monotonic] = [ClockId::Boottime, ClockId::Monotonic].map(clock_gettime);
    let since = |time: Timespec| Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
    since(boottime).saturating_sub(since(monotonic))
}
