//! Guards and sessions against a real server. Both sides' clocks are the test's: nothing here waits for time.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod guard;
mod queue;
mod run;
mod session;

use std::time::Duration;

use leasehold::clock::FakeClock;
use leasehold::{Client, LockGuard};
use leasehold_testkit::{Local, settings};

const TTL: Duration = Duration::from_secs(30);

/// A server and a client whose clocks go together.
struct World {
    local: Local,
    clock: FakeClock,
    client: Client,
}

impl World {
    async fn new() -> Self {
        Self::on(Local::ephemeral().await)
    }

    /// A server that keeps places in queues for long: time may pass while somebody is on the way back.
    async fn patient() -> Self {
        let mut settings = settings(None);
        settings.engine.limits.park_max = settings.engine.limits.wait_max;
        Self::on(Local::start(settings).await)
    }

    fn on(local: Local) -> Self {
        let clock = FakeClock::default();
        let client = Self::client_of(&local, &clock, "one");
        Self { local, clock, client }
    }

    fn client_of(local: &Local, clock: &FakeClock, owner: &str) -> Client {
        let url = format!("http://{}", local.address);
        Client::builder(&url).owner(owner).clock(clock.clone()).build().unwrap()
    }

    fn other(&self) -> Client {
        Self::client_of(&self.local, &self.clock, "two")
    }

    /// Time passes, for the server first: so a lease is never renewed with more time than it has.
    fn advance(&self, by: Duration) {
        self.local.advance_ms(by.as_millis() as u64);
        self.clock.advance(by);
    }

    /// How often the server was asked to renew, and let it be.
    async fn n_renewals(&self) -> u64 {
        let metrics = self.local.client.get("/metrics").await.text;
        let lines = metrics.lines().filter(|line| line.starts_with("lock_renew_total{"));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Time passes in which a renewal falls due. Comes back once its answer is read: a clock that went on before
    /// that would have the guard give the renewal up.
    async fn advance_and_renew(&self, by: Duration, guard: &LockGuard) {
        let end = guard.end();
        self.advance(by);
        self.until("the lease is renewed", async || guard.end() > end).await;
    }

    async fn until(&self, what: &str, mut condition: impl AsyncFnMut() -> bool) {
        self.local.until(what, async |_| condition().await).await;
    }
}
