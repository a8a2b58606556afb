//! The checker must be able to fail: each deliberate bug is found within a bounded number of seeds.

#![allow(clippy::print_stdout, reason = "what was found is worth seeing")]

use leasehold_core::mutant::{ALL, Mutant, switch};

/// Seeds tried for each bug before the checker counts as blind to it.
const SEEDS_MAX: u64 = 2000;

/// The first seed whose run the checker objects to, and its objection.
fn find(mutant: Mutant) -> Option<(u64, String)> {
    switch(Some(mutant));
    let found = (1..=SEEDS_MAX).find_map(|seed| Some((seed, objection(seed)?)));
    switch(None);
    found
}

/// The core may object before the checker does: it asserts what it relies on.
fn objection(seed: u64) -> Option<String> {
    match std::panic::catch_unwind(|| sim::run(seed)) {
        Ok(report) => report.violations.into_iter().next(),
        Err(_) => Some("an assertion failed".into()),
    }
}

#[test]
fn every_deliberate_bug_is_found() {
    let mut missed = Vec::new();
    // One of them by itself: MUTANT=QueueLifo.
    let only = std::env::var("MUTANT").unwrap_or_default();
    let is_wanted = |mutant: &Mutant| only.is_empty() || only == format!("{mutant:?}");
    for mutant in ALL.into_iter().filter(is_wanted) {
        match find(mutant) {
            Some((seed, why)) => println!("{mutant:?}: seed {seed}: {why}"),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not found within {SEEDS_MAX} seeds: {missed:?}");
}
