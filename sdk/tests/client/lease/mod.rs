//! Guards and sessions against a real server. The test controls the clocks of both sides, so no test waits for real
//! time.

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

/// A server and a client whose clocks advance together.
struct World {
    local: Local,
    clock: FakeClock,
    client: Client,
}

impl World {
    async fn new() -> Self {
        Self::on(Local::ephemeral().await)
    }

    /// Starts a server that keeps positions in queues for a long time, because time can pass while a client reconnects.
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

    /// Advances both clocks, that of the server first. Otherwise the server could renew a lease before its own clock
    /// advances, and the client would assume more time than the lease has.
    fn advance(&self, by: Duration) {
        self.local.advance_ms(by.as_millis() as u64);
        self.clock.advance(by);
    }

    /// Returns how many renewals the server has handled.
    async fn n_renewals(&self) -> u64 {
        let metrics = self.local.client.get("/metrics").await.text;
        let lines = metrics.lines().filter(|line| line.starts_with("lock_renew_total{"));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Advances the clocks so that a renewal is due, and returns once its response is read. If the clock advanced
    /// further before that, the guard would give up the renewal.
    async fn advance_and_renew(&self, by: Duration, guard: &LockGuard) {
        let end = guard.end();
        self.advance(by);
        self.until("the lease is renewed", async || guard.end() > end).await;
    }

    async fn until(&self, what: &str, mut condition: impl AsyncFnMut() -> bool) {
        self.local.until(what, async |_| condition().await).await;
    }
}
