//! Runs a few seeds, always the same ones. `scripts/soak` draws others.

fn check(seed: u64) {
    let report = sim::run_twice(seed);
    let replay = format!("replay: cargo run --release -p sim -- --seed {seed} --trace");
    assert!(report.violations.is_empty(), "{:#?}\n{replay}", report.violations);
    assert!(report.n_leases > 0, "seed {seed}: nothing happened\n{replay}");
}

#[test]
fn seeds_keep_every_promise() {
    (1..=60).for_each(check);
}
