//! Runs scripts with a driver, several at a time, each in a separate world.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::flaw::{Flaw, Outcome, broken, demand};
use crate::lag::Lag;
use crate::report::{Report, Verdict};
use crate::script::Script;
use crate::subject::{Setup, Subject};
use crate::world::World;

/// The time limit of a script.
const SCRIPT_MAX: Duration = Duration::from_secs(300);

/// The delay of the harness above which a failure might be its fault.
const LAG_MAX: Duration = Duration::from_millis(75);
const TRIES_MAX: u32 = 8;
/// Maximum attempts with a deliberate bug, which is supposed to fail, so repeating is less useful.
const TRIES_OF_BUGS_MAX: u32 = 3;

/// How much of a driver's output is shown when a script fails.
const SAID_BYTES_SHOWN: usize = 4000;

/// Runs these scripts with one driver, at most `n_jobs` at a time.
pub async fn run(setup: &Setup, scripts: &[Script], n_jobs: usize) -> Report {
    let places = Arc::new(Semaphore::new(n_jobs));
    let mut running = Vec::new();
    for script in scripts.iter().copied() {
        let (setup, places) = (setup.clone(), places.clone());
        running.push(tokio::spawn(async move {
            let _place = places.acquire_owned().await;
            judge(&setup, script).await
        }));
    }
    let mut report = Report { driver: setup.driver.join(" "), verdicts: Vec::new() };
    for (running, script) in running.into_iter().zip(scripts) {
        let (verdict, driver) = running.await.unwrap_or_else(|why| {
            let flaw = Some(broken(format!("it panicked: {why}")));
            (Verdict { flaw, ..Verdict::new(script.name) }, None)
        });
        report.driver = driver.unwrap_or(report.driver);
        report.verdicts.push(verdict);
    }
    report
}

/// Judges a script. A failure on an overloaded machine is repeated: if the driver is at fault, the script fails again.
async fn judge(setup: &Setup, script: Script) -> (Verdict, Option<String>) {
    let mut n_tries = 0;
    loop {
        n_tries += 1;
        let lag = Lag::watch();
        let (verdict, driver) = try_once(setup, script).await;
        let is_last = !setup.environment.is_empty() && n_tries >= TRIES_OF_BUGS_MAX;
        if is_last || !is_to_be_repeated(verdict.flaw.iter(), &lag, n_tries) {
            return (Verdict { n_tries, lag: lag.max(), ..verdict }, driver);
        }
    }
}

/// Returns whether a failure proves nothing, so that the run is repeated.
pub(crate) fn is_to_be_repeated<'a>(
    mut flaws: impl Iterator<Item = &'a Flaw>,
    lag: &Lag,
    n_tries: u32,
) -> bool {
    let is_wrong = flaws.any(|flaw| matches!(flaw, Flaw::Wrong(_)));
    is_wrong && lag.max() > LAG_MAX && n_tries < TRIES_MAX
}

async fn try_once(setup: &Setup, script: Script) -> (Verdict, Option<String>) {
    let start = Instant::now();
    let world = match World::open(setup).await {
        Ok(world) => world,
        Err(flaw) => {
            let took = start.elapsed();
            return (Verdict { flaw: Some(flaw), took, ..Verdict::new(script.name) }, None);
        }
    };
    let too_long = || Flaw::Wrong(format!("not done after {SCRIPT_MAX:?}"));
    let outcome = tokio::time::timeout(SCRIPT_MAX, (script.run)(&world)).await;
    let outcome = outcome.unwrap_or_else(|_| Err(too_long())).and_then(|()| kept_quiet(&world));
    let took = start.elapsed();
    let shown = |_| trace(&world, &world.log.show(world.start, ""));
    let trace = outcome.as_ref().err().map_or_else(String::new, shown);
    let verdict = Verdict { flaw: outcome.err(), took, trace, ..Verdict::new(script.name) };
    (verdict, Some(world.name.clone()))
}

/// Checks that stdout contains only the protocol.
fn kept_quiet(world: &World) -> Outcome {
    let noise = world.driver.noise();
    demand!(noise.is_empty(), "on stdout, and no answer to any command: {noise:?}");
    Ok(())
}

/// Formats these requests and the driver's output for people.
pub(crate) fn trace(subject: &Subject, requests: &str) -> String {
    let said = subject.driver.said();
    let mut from = said.len().saturating_sub(SAID_BYTES_SHOWN);
    while !said.is_char_boundary(from) {
        from += 1;
    }
    format!("requests:\n{requests}stdout and stderr:\n{}", &said[from..])
}
