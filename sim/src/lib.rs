//! Simulates the whole system in one thread from a seed: the real core and engine, a simulated disk, network and
//! clocks, and careful and careless clients. A separate checker sees only what the clients saw.
//!
//! The same seed gives the same run, byte for byte. Start reading at `world.rs`, then `checker/mod.rs`.

use leasehold_base::random;

use crate::chance::Chance;

pub mod chance;
pub mod checker;
pub mod client;
pub mod cluster;
mod crowd;
pub mod etcd;
mod fault;
mod folder;
pub mod front;
pub mod history;
pub mod http;
pub mod message;
pub mod network;
pub mod node;
pub mod plan;
pub mod scene;
pub mod store;
pub mod time;
pub mod trace;
pub mod worker;
pub mod world;

/// The result of one seed.
pub struct Report {
    /// The violations found, in words. Empty if the run was correct.
    pub violations: Vec<String>,
    /// The number of requests.
    pub n_operations: usize,
    /// The number of leases that were granted and acknowledged.
    pub n_leases: usize,
    /// The number of faults.
    pub n_faults: u64,
    /// How often a server was started.
    pub n_starts: usize,
    /// The number of leader changes in a cluster.
    pub n_epochs: u64,
    /// How often the states of two servers after the same record were compared in a cluster.
    pub n_compared: u64,
    /// A log of all events.
    pub trace: String,
}

/// Runs one seed and checks it.
pub fn run(seed: u64) -> Report {
    let (history, trace) = drawn(seed, || world::World::new(seed).run());
    let verdict = checker::check(&history);
    Report {
        violations: verdict.violations,
        n_operations: history.operations.len(),
        n_leases: verdict.n_leases,
        n_faults: history.n_faults,
        n_starts: history.outages.len(),
        n_epochs: 0,
        n_compared: 0,
        trace,
    }
}

/// Makes the server draw its random values from the seed, too: the secrets of leases and the names of sessions.
fn drawn<T>(seed: u64, work: impl FnOnce() -> T) -> T {
    let mut chance = Chance::new(!seed);
    random::drawn_from(move |bytes| chance.fill(bytes), work)
}

/// Runs one seed twice, and reports any difference between the runs.
pub fn run_twice(seed: u64) -> Report {
    twice(run, seed)
}

/// Runs one seed of any kind of run twice, and reports any difference.
pub fn twice(run: fn(u64) -> Report, seed: u64) -> Report {
    let (mut report, again) = (run(seed), run(seed));
    if report.trace != again.trace {
        let mut lines = report.trace.lines().zip(again.trace.lines());
        let differing = lines.find(|(first, second)| first != second);
        report.violations.push(format!("two runs of the seed differ: {differing:?}"));
    }
    report
}
