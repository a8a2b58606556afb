//! Runs a few seeds of the cluster simulation, which are always the same unless environment variables name others.

#![allow(clippy::print_stdout, reason = "a random test prints its seeds")]

use std::time::Instant;

/// The sum of the results of several seeds.
#[derive(Default, Debug)]
struct Sum {
    n_seeds: u64,
    n_operations: usize,
    n_leases: usize,
    n_faults: u64,
    n_starts: usize,
    n_epochs: u64,
    n_compared: u64,
}

fn check(from: u64, n_seeds: u64) {
    let (began, mut sum) = (Instant::now(), Sum::default());
    for seed in from..from + n_seeds {
        let report = sim::twice(sim::cluster::run, seed);
        let replay = format!("replay: cargo run -p sim -- --cluster --seed {seed} --trace");
        if !report.violations.is_empty() {
            let trace = std::env::temp_dir().join(format!("leasehold-sim-cluster-{seed}"));
            std::fs::write(&trace, &report.trace).expect("room for a trace");
            panic!("{:#?}\n{replay}, or read {}", report.violations, trace.display());
        }
        assert!(report.n_compared > 0, "seed {seed}: no states were compared\n{replay}");
        sum.n_seeds += 1;
        sum.n_operations += report.n_operations;
        sum.n_leases += report.n_leases;
        sum.n_faults += report.n_faults;
        sum.n_starts += report.n_starts;
        sum.n_epochs += report.n_epochs;
        sum.n_compared += report.n_compared;
    }
    println!("{sum:?}, each twice, in {:.1} s", began.elapsed().as_secs_f64());
    assert!(sum.n_epochs > 2 * n_seeds, "hardly any server took over: {sum:?}");
}

/// Reads a number from an environment variable, such as `CLUSTER_SEEDS=1000` for a long run from `CLUSTER_FROM` on.
fn told(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|told| told.parse().ok()).unwrap_or(usual)
}

#[test]
fn seeds_keep_every_promise() {
    check(1, 12);
}

#[test]
fn told_seeds_keep_every_promise() {
    let first = told("CLUSTER_FROM", 13);
    let n_seeds = told("CLUSTER_SEEDS", 6);
    println!("seeds {first} to {}", first + n_seeds - 1);
    check(first, n_seeds);
}
