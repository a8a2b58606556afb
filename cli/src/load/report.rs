//! The report at the end of a load run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::history::Breach;
use super::tally::{Refusals, Times};
use super::world::World;
use crate::duration::glance;
use crate::output::plain;
use crate::screen::Screen;
use crate::table::Table;

/// The results of a run; printed as tables or as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) n_clients: u32,
    pub(super) n_locks: usize,
    pub(super) seconds: f64,
    /// Leases granted.
    pub(super) n_grants: u64,
    pub(super) grants_per_second: f64,
    pub(super) n_writes: u64,
    pub(super) n_renewals: u64,
    pub(super) n_lost: u64,
    /// Acquires that were still waiting at the end of the run.
    pub(super) n_timeouts: u64,
    pub(super) n_pauses: u64,
    pub(super) stale_writes: Stale,
    pub(super) stale_renewals: Stale,
    pub(super) stale_releases: Stale,
    pub(super) n_errors: u64,
    pub(super) errors: BTreeMap<String, u64>,
    /// The time from the request to the grant, including the wait in the queue.
    pub(super) acquire: Latency,
    pub(super) release: Latency,
    pub(super) n_breaches: u64,
    /// The first few breaches of each kind.
    pub(super) breaches: Vec<Seen>,
}

/// Requests with the token of an ended lease: how many were sent, and how many were rejected.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Stale {
    injected: u64,
    rejected: u64,
}

/// Latency percentiles in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Latency {
    n: u64,
    p50_us: u64,
    p90_us: u64,
    p99_us: u64,
    p999_us: u64,
    max_us: u64,
}

/// A broken guarantee, with the lock it concerns.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Seen {
    lock_name: String,
    #[serde(flatten)]
    breach: Breach,
}

impl Report {
    pub(super) fn new(world: &World, took: Duration) -> Self {
        let tally = &world.tally;
        let acquire = Latency::of(&tally.acquire);
        let history = world.history();
        let name = |lock: usize| world.names[lock].clone();
        let seen = history.breaches.iter();
        let seen = seen.map(|(lock, breach)| Seen { lock_name: name(*lock), breach: *breach });
        Self {
            n_clients: world.plan.clients,
            n_locks: world.names.len(),
            seconds: took.as_secs_f64(),
            n_grants: acquire.n,
            grants_per_second: acquire.n as f64 / took.as_secs_f64().max(0.001),
            n_writes: tally.writes.get(),
            n_renewals: tally.renewals.get(),
            n_lost: tally.lost.get(),
            n_timeouts: tally.timeouts.get(),
            n_pauses: tally.pauses.get(),
            stale_writes: Stale::of(&tally.stale_writes),
            stale_renewals: Stale::of(&tally.stale_renewals),
            stale_releases: Stale::of(&tally.stale_releases),
            n_errors: tally.errors.get(),
            errors: tally.kinds(),
            acquire,
            release: Latency::of(&tally.release),
            n_breaches: history.n_breaches,
            breaches: seen.collect(),
        }
    }

    pub(super) fn render(&self, screen: Screen) -> String {
        let locks = if self.n_locks == 1 { "lock" } else { "locks" };
        let (clients, seconds) = (self.n_clients, self.seconds);
        let summary = format!("{clients} clients, {} {locks}, {seconds:.1}s", self.n_locks);
        let mut parts =
            vec![summary, self.latencies().render(screen), self.counts().render(screen)];
        if self.n_errors > 0 {
            let lines = self.errors.iter().map(|(text, n)| format!("{n} x {}", plain(text)));
            parts.push(lines.collect::<Vec<_>>().join("\n"));
        }
        parts.push(self.verdict(screen));
        parts.join("\n\n")
    }

    fn latencies(&self) -> Table {
        let mut table =
            Table::new(["CALL", "N", "PER SECOND", "P50", "P90", "P99", "P99.9", "MAX"]);
        for (name, latency) in [("acquire", self.acquire), ("release", self.release)] {
            let per_second = latency.n as f64 / self.seconds.max(0.001);
            let Latency { n, p50_us, p90_us, p99_us, p999_us, max_us } = latency;
            let [p50, p90, p99, p999, max] = [p50_us, p90_us, p99_us, p999_us, max_us]
                .map(|micros| glance(Duration::from_micros(micros)));
            let per_second = format!("{per_second:.1}");
            table.row([name.into(), n.to_string(), per_second, p50, p90, p99, p999, max]);
        }
        table
    }

    fn counts(&self) -> Table {
        let stale =
            |stale: Stale| format!("{} injected, {} rejected", stale.injected, stale.rejected);
        let mut table = Table::new(["WHAT", "HOW OFTEN"]);
        for (name, n) in [
            ("writes", self.n_writes.to_string()),
            ("renewals", self.n_renewals.to_string()),
            ("leases lost", self.n_lost.to_string()),
            ("waits to the end", self.n_timeouts.to_string()),
            ("errors", self.n_errors.to_string()),
            ("clients paused", self.n_pauses.to_string()),
            ("stale writes", stale(self.stale_writes)),
            ("stale renewals", stale(self.stale_renewals)),
            ("stale releases", stale(self.stale_releases)),
        ] {
            table.row([name.into(), n]);
        }
        table
    }

    fn verdict(&self, screen: Screen) -> String {
        if self.n_breaches > 0 {
            let seen = self.breaches.iter();
            let seen = seen.map(|seen| format!("  {}: {}", plain(&seen.lock_name), seen.breach));
            let seen = seen.collect::<Vec<_>>().join("\n");
            return format!("{}: {} times\n{seen}", screen.red("BROKEN"), self.n_breaches);
        }
        if self.n_grants == 0 {
            return format!("{}: no lock was ever acquired", screen.red("NOTHING"));
        }
        let ok = screen.green("OK");
        format!("{ok}: one holder at a time, increasing tokens, no stale request accepted")
    }
}

impl Stale {
    fn of(refusals: &Refusals) -> Self {
        Self { injected: refusals.injected.get(), rejected: refusals.rejected.get() }
    }
}

impl Latency {
    fn of(times: &Times) -> Self {
        let histogram = times.histogram();
        let at = |quantile| histogram.value_at_quantile(quantile);
        Self {
            n: histogram.len(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: histogram.max(),
        }
    }
}
