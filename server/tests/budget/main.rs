//! Measures what one request costs in allocations and instructions, in the engine alone and from the HTTP front end on.
//!
//! The costs are counted, not timed, so that this can be a test. `budget.txt` contains the allowed costs. After a
//! change that makes requests cheaper, or more expensive for a good reason, update the file with `UPDATE_BUDGET=1
//! ./scripts/test --only budget`.

#![allow(unsafe_code, reason = "counting allocations means being the allocator")]
#![allow(clippy::print_stdout, reason = "the figures are worth seeing")]

mod counting;
mod door;
mod work;

use std::collections::BTreeMap;
use std::process::Command;

use door::{DoorBench, Shown};
use work::{Bench, Workload};

/// Allowed relative deviation, because compilers and libraries differ a little.
const TOLERANCE: f64 = 0.10;
/// Environment variable that makes the test `counted` run one workload: store, workload and number of rounds.
const COUNTED: &str = "BUDGET_COUNTED";
/// Number of measured rounds. The same number runs before them as a warm-up.
const N_ROUNDS: usize = 20;
/// Number of runs for each count at the HTTP front end, where a small difference between two counts is measured.
const N_DOOR_RUNS: usize = 3;

#[test]
fn allocations_are_within_the_budget() {
    let mut seen = BTreeMap::new();
    for store in work::STORES {
        for workload in Workload::ALL {
            let mut bench = Bench::start(store, workload);
            bench.run(N_ROUNDS);
            let n_before = counting::n_allocations();
            bench.run(N_ROUNDS);
            let n = (counting::n_allocations() - n_before) as f64 / bench.n_requests(N_ROUNDS);
            seen.insert(format!("{store} {} allocations", workload.name()), n);
        }
    }
    check(&seen);
}

#[test]
fn instructions_are_within_the_budget() {
    let mut seen = BTreeMap::new();
    for store in work::STORES {
        for workload in Workload::ALL {
            // Startup and shutdown are part of both runs, so the difference does not contain them.
            let [once, twice] =
                [1, 2].map(|n| n_instructions(store, workload.name(), n * N_ROUNDS));
            let n_requests = Bench::start(store, workload).n_requests(N_ROUNDS);
            let n = (twice - once) / n_requests;
            seen.insert(format!("{store} {} instructions", workload.name()), n);
        }
    }
    check(&seen);
}

/// Allowed cost of an API key and of a remembered token, relative to a request without authentication at the HTTP front
/// end. The guarantee allows this share of a whole request, which costs more.
const ALLOWED: [(Shown, f64); 2] = [(Shown::Key, 1.03), (Shown::Token, 1.05)];

#[test]
fn who_asks_costs_little_at_the_door() {
    let allocations = |shown: Shown| {
        let mut bench = DoorBench::start(shown);
        bench.run(N_ROUNDS);
        let n_before = counting::n_allocations();
        bench.run(N_ROUNDS);
        (counting::n_allocations() - n_before) as f64 / DoorBench::n_requests(N_ROUNDS)
    };
    // Hash tables have other seeds in each run, so counts differ by some percent. The smallest of several counts varies
    // least.
    let instructions = |shown: Shown| {
        let least = |n_rounds| {
            let counts = (0..N_DOOR_RUNS).map(|_| n_instructions("door", shown.name(), n_rounds));
            counts.fold(f64::INFINITY, f64::min)
        };
        let [once, twice] = [1, 2].map(|n| least(n * N_ROUNDS));
        (twice - once) / DoorBench::n_requests(N_ROUNDS)
    };
    let mut seen = BTreeMap::new();
    for (what, count) in
        [("allocations", &allocations as &dyn Fn(Shown) -> f64), ("instructions", &instructions)]
    {
        let plain = count(Shown::Nothing);
        seen.insert(format!("door {} {what}", Shown::Nothing.name()), plain);
        for (shown, allowed) in ALLOWED {
            let n = count(shown);
            let name = shown.name();
            println!("door {name} {what}: {:.4} of plain", n / plain);
            assert!(
                n <= plain * allowed,
                "{what}: {name} {n:.1}, plain {plain:.1}, {allowed} allowed"
            );
            seen.insert(format!("door {name} {what}"), n);
        }
    }
    check(&seen);
}

/// Runs the workload in `COUNTED` under valgrind. Does nothing in a normal test run.
#[test]
fn counted() {
    let Ok(what) = std::env::var(COUNTED) else { return };
    let words: Vec<_> = what.split(' ').collect();
    let [store, workload, n_rounds] = words[..] else { panic!("{what}") };
    let n_rounds = n_rounds.parse().expect("a number");
    if store == "door" {
        return DoorBench::start(Shown::named(workload)).run(n_rounds);
    }
    let store = work::STORES.into_iter().find(|known| *known == store).expect("a store");
    Bench::start(store, Workload::named(workload)).run(n_rounds);
}

/// Runs this program under valgrind for `n_rounds` rounds. Returns the number of instructions.
fn n_instructions(store: &str, workload: &str, n_rounds: usize) -> f64 {
    let this = std::env::current_exe().expect("this program");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(this);
    valgrind.args(["--exact", "counted", "--test-threads=1"]);
    valgrind.env(COUNTED, format!("{store} {workload} {n_rounds}"));
    let ended = valgrind.output().expect("valgrind, which scripts/test installs");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let line = said.lines().find_map(|line| line.split_once("Collected : ")).expect("a count");
    line.1.trim().parse().expect("a number")
}

/// Compares the measurements with the budget, or updates the budget file.
fn check(seen: &BTreeMap<String, f64>) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/budget/budget.txt");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut budget: BTreeMap<_, _> = text
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, value)| (name.to_owned(), value.parse::<f64>().expect("a number")))
        .collect();
    for (name, value) in seen {
        println!("{name}: {value:.1}");
    }
    if std::env::var_os("UPDATE_BUDGET").is_some() {
        budget.extend(seen.iter().map(|(name, value)| (name.clone(), *value)));
        let lines = budget.iter().map(|(name, value)| format!("{name} {value:.1}\n"));
        std::fs::write(path, lines.collect::<String>()).expect("the budget");
        return;
    }
    for (name, value) in seen {
        let allowed = budget.get(name).unwrap_or_else(|| panic!("{name} is not in the budget"));
        // One or two allocations over all rounds are noise.
        let slack = allowed * TOLERANCE + 0.1;
        assert!((value - allowed).abs() <= slack, "{name}: {value:.1}, the budget says {allowed}");
    }
}
