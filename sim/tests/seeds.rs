//! A handful of seeds that are always the same, and a few that never are.

#![allow(clippy::print_stdout, reason = "a random test prints its seeds")]

use std::time::{SystemTime, UNIX_EPOCH};

fn check(seed: u64) {
    let report = sim::run_twice(seed);
    let replay = format!("replay: cargo run --release -p sim -- --seed {seed} --trace");
    assert!(report.violations.is_empty(), "{:#?}\n{replay}", report.violations);
    assert!(report.n_leases > 0, "seed {seed}: nothing happened\n{replay}");
}

#[test]
fn fixed_seeds_keep_every_promise() {
    (1..=40).for_each(check);
}

#[test]
fn random_seeds_keep_every_promise() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let first = now.as_nanos() as u64 % 1_000_000_000_000;
    println!("seeds {first} to {}", first + 19);
    (first..first + 20).for_each(check);
}
