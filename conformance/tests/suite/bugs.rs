//! The suite judged: each script passes a plain client that keeps the promises, and fails the one that breaks its own.

use std::collections::BTreeSet;

use leasehold_conformance::bug::{BUGS, Bug};
use leasehold_conformance::flaw::Flaw;
use leasehold_conformance::report::table;
use leasehold_conformance::run::run;
use leasehold_conformance::script::{SCRIPTS, Script};

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
            let is_found = match &report.verdicts[0].flaw {
                // A suite that stumbles has found nothing.
                Some(Flaw::Wrong(why)) => !why.contains("the suite could not go on"),
                _ => false,
            };
            let flaw = &report.verdicts[0].flaw;
            (!is_found).then(|| format!("{bug:?} ({what}): {} says {flaw:?}", script.name))
        }));
    }
    let mut missed = Vec::new();
    for running in running {
        missed.extend(running.await.unwrap());
    }
    assert!(missed.is_empty(), "not found:\n{}", missed.join("\n"));
}

/// Each bug with each script that must find it.
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
    let with_a_bug: BTreeSet<_> = finds().map(|(_, _, script)| script.name).collect();
    let all: BTreeSet<_> = SCRIPTS.iter().map(|script| script.name).collect();
    assert_eq!(with_a_bug, all);
    let n_named: usize = BUGS.iter().map(|(_, _, scripts)| scripts.len()).sum();
    assert_eq!(finds().count(), n_named, "a bug names a script that is not there");
}
