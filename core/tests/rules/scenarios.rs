//! Runs `scenarios/*.txt`. Lines without indentation are commands, indented lines are their results.
//!
//! A scenario with other results fails. If the new results are intended, `UPDATE_SCENARIOS=1` rewrites the file, and
//! the change is reviewed like any other.

#![allow(
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test reads files and tells what differs"
)]

use crate::scenario;
use std::fs;
use std::path::Path;

#[test]
fn every_scenario_prints_what_its_file_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules/scenarios");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("the scenarios are there")
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.sort();
    assert!(files.len() >= 20, "scenarios are missing: only {} found", files.len());
    let changed: Vec<_> = files.iter().filter(|file| !check(file)).collect();
    assert!(
        changed.is_empty(),
        "these print something else (UPDATE_SCENARIOS=1 rewrites them): {changed:?}"
    );
}

fn check(file: &Path) -> bool {
    let expected = fs::read_to_string(file).expect("readable");
    let printed =
        scenario::run(&expected).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    if printed == expected {
        return true;
    }
    if std::env::var_os("UPDATE_SCENARIOS").is_some() {
        fs::write(file, printed).expect("writable");
        return true;
    }
    let lines = expected.lines().zip(printed.lines()).enumerate();
    let first = lines.into_iter().find(|(_, (a, b))| a != b);
    eprintln!("{}: {first:?}", file.display());
    false
}
