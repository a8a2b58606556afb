//! A clock for tests.

use std::time::Duration;

use tokio::sync::watch;

use super::{Alarm, Clock, Moment};

/// A clock for tests that stands still until the test advances it.
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
    /// Advances the clock and wakes every future whose time has come.
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
            // The wait fails only when the clock is dropped. Then the time can never come.
            if now.wait_for(|now| *now >= at).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}
