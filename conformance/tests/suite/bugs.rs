//! Tests the suite itself: each script passes a plain client without a bug, and fails a client with the bug it must
//! find.

use std::collections::BTreeSet;

use leasehold_conformance::bug::{BUGS, Bug};
use leasehold_conformance::cluster;
use leasehold_conformance::flaw::Flaw;
use leasehold_conformance::report::{Verdict, table};
use leasehold_conformance::run::run;
use leasehold_conformance::script::{SCRIPTS, Script, names};
use leasehold_conformance::subject::Setup;

use crate::{TURN, setup};

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_client_without_a_bug_conforms() {
    let _turn = TURN.lock().await;
    let report = run(&setup(env!("CARGO_BIN_EXE_naive-driver")), SCRIPTS, 8).await;
    let shown = table(std::slice::from_ref(&report));
    assert!(report.is_good(), "{}\n{shown}", report.failures());
    assert_eq!(report.count("ok"), SCRIPTS.len(), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_deliberate_bug_is_found() {
    let _turn = TURN.lock().await;
    let places = std::sync::Arc::new(tokio::sync::Semaphore::new(8));
    let mut running = Vec::new();
    for (bug, what, script) in finds() {
        let places = places.clone();
        running.push(tokio::spawn(async move {
            let _place = places.acquire_owned().await;
            let mut setup = setup(env!("CARGO_BIN_EXE_naive-driver"));
            setup.environment = vec![("CONFORMANCE_BUG".into(), bug.name())];
            let report = run(&setup, &[script], 1).await;
            missed(bug, what, &report.verdicts[0])
        }));
    }
    let mut missed = Vec::new();
    for running in running {
        missed.extend(running.await.unwrap());
    }
    assert!(missed.is_empty(), "not found:\n{}", missed.join("\n"));
}

/// Returns a description of a bug that was not found.
fn missed(bug: Bug, what: &str, verdict: &Verdict) -> Option<String> {
    let is_found = match &verdict.flaw {
        // A failure of the suite itself does not count as finding the bug.
        Some(Flaw::Wrong(why)) => !why.contains("the suite could not go on"),
        _ => false,
    };
    let Verdict { script, flaw, .. } = verdict;
    (!is_found).then(|| format!("{bug:?} ({what}): {script} says {flaw:?}"))
}

/// All drivers share one cluster, so its leader changes affect drivers with and without a bug at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn over_a_change_of_leaders_rust_conforms_and_bugs_are_found() {
    let _turn = TURN.lock().await;
    let naive = setup(env!("CARGO_BIN_EXE_naive-driver"));
    let mut setups = vec![setup(env!("CARGO_BIN_EXE_rust-driver")), naive.clone()];
    let n_good = setups.len();
    let bugs: Vec<_> = BUGS
        .iter()
        .filter(|(_, _, scripts)| cluster::NAMES.iter().any(|name| scripts.contains(name)))
        .collect();
    for (bug, ..) in &bugs {
        let environment = vec![("CONFORMANCE_BUG".into(), bug.name())];
        setups.push(Setup { environment, ..naive.clone() });
    }
    let mut told = cluster::run(&setups).await;
    let of_bugs = told.split_off(n_good);
    for report in &told {
        assert!(report.is_good(), "{}", report.failures());
    }
    let missed: Vec<_> = bugs
        .iter()
        .zip(&of_bugs)
        .flat_map(|((bug, what, scripts), report)| {
            let named = report.verdicts.iter().filter(|verdict| scripts.contains(&verdict.script));
            named.filter_map(|verdict| missed(*bug, what, verdict))
        })
        .collect();
    assert!(missed.is_empty(), "not found:\n{}", missed.join("\n"));
}

/// Returns each bug with each script that must find it.
fn finds() -> impl Iterator<Item = (Bug, &'static str, Script)> {
    BUGS.iter().flat_map(|(bug, what, scripts)| {
        SCRIPTS
            .iter()
            .filter(|script| scripts.contains(&script.name))
            .map(|script| (*bug, *what, *script))
    })
}

#[test]
fn every_script_has_a_bug_to_find() {
    let named = BUGS.iter().flat_map(|(_, _, scripts)| scripts.iter().copied());
    assert_eq!(named.collect::<BTreeSet<_>>(), names().collect::<BTreeSet<_>>());
}
