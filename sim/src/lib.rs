//! The whole system in one thread, with a seed: the real core and the real engine, a simulated disk, network
//! and clocks, clients good and bad, and a checker that stands outside and sees what the clients saw.
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

/// What became of one seed.
pub struct Report {
    /// What is wrong, in words; nothing, one hopes.
    pub violations: Vec<String>,
    /// How many questions were asked.
    pub n_operations: usize,
    /// How many leases were granted and acknowledged.
    pub n_leases: usize,
    /// How many faults there were.
    pub n_faults: u64,
    /// How often a server was started.
    pub n_starts: usize,
    /// How often a server came to lead, if there are several.
    pub n_epochs: u64,
    /// How often a server's state after a record was compared with another's, if there are several.
    pub n_compared: u64,
    /// All that happened.
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

/// Has what a server draws by itself be of the seed, too: the secrets of leases, the names of sessions.
fn drawn<T>(seed: u64, work: impl FnOnce() -> T) -> T {
    let mut chance = Chance::new(!seed);
    random::drawn_from(move |bytes| chance.fill(bytes), work)
}

/// Runs one seed twice: the same things must happen in both.
pub fn run_twice(seed: u64) -> Report {
    twice(run, seed)
}

/// The same of any kind of run.
pub fn twice(run: fn(u64) -> Report, seed: u64) -> Report {
    let (mut report, again) = (run(seed), run(seed));
    if report.trace != again.trace {
        let mut lines = report.trace.lines().zip(again.trace.lines());
        let differing = lines.find(|(first, second)| first != second);
        report.violations.push(format!("two runs of the seed differ: {differing:?}"));
    }
    report
}
