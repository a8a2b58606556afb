//! Small models, each run in every interleaving.

#![allow(clippy::print_stdout, reason = "how long each took is worth seeing")]

use crate::PREEMPTIONS_MAX;
use crate::world::{Plan, World};

/// Workers run their rounds themselves, if possible.
const QUIET: Plan = Plan {
    n_workers: 2,
    batch_max: 8,
    n_crowd: 8,
    n_quiet_rounds_min: 0,
    n_gathered: 0,
    n_rounds_max: 1,
};
/// The engine's thread runs all rounds.
const BUSY: Plan = Plan { n_quiet_rounds_min: u32::MAX, ..QUIET };

fn check(plan: Plan, model: fn(Plan)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(move || model(plan));
}

/// Several workers send one request each. Then the engine is stopped.
fn workers_ask(plan: Plan) {
    let world = World::new(plan);
    let engine = world.start_engine();
    let others: Vec<_> = (1..plan.n_workers).map(|n| world.start_worker(n, 1)).collect();
    world.ask_and_wait(0, None);
    others.into_iter().for_each(|worker| worker.join().expect("no panic"));
    world.stop();
    engine.join().expect("no panic");
}

/// A worker sends a second request after its first response: the engine is quiet, then busy, then quiet.
fn one_asks_twice(plan: Plan) {
    let world = World::new(plan);
    let engine = world.start_engine();
    world.ask_and_wait(0, None);
    world.ask_and_wait(0, None);
    world.stop();
    engine.join().expect("no panic");
}

/// A worker and another thread send requests.
fn an_outsider_asks(plan: Plan) {
    let world = World::new(plan);
    let (engine, worker) = (world.start_engine(), world.start_worker(1, 1));
    world.ask_from_outside();
    worker.join().expect("no panic");
    world.stop();
    engine.join().expect("no panic");
}

/// A request leaves work that is due soon, so the engine's thread must not sleep longer.
fn something_falls_due(plan: Plan) {
    let world = World::new(plan);
    let engine = world.start_engine();
    world.ask_and_wait(0, Some(1));
    world.wait_for_due();
    world.stop();
    engine.join().expect("no panic");
}

/// A request during the stop gets a response or is rejected.
fn it_stops_meanwhile(plan: Plan) {
    let world = World::new(plan);
    let (engine, worker) = (world.start_engine(), world.start_worker(0, 1));
    world.stop();
    worker.join().expect("no panic");
    engine.join().expect("no panic");
}

/// A name, the bounds, and the function to run.
type Model = (&'static str, Plan, fn(Plan));

/// The models, and the plans with which each is run.
const ALL: [Model; 12] = {
    let gathered = Plan { n_gathered: 2, ..BUSY };
    let crowded = Plan { n_crowd: 2, ..BUSY };
    let sliced = Plan { batch_max: 1, n_rounds_max: 2, ..QUIET };
    let quiet_soon = Plan { n_quiet_rounds_min: 2, ..QUIET };
    [
        ("something falls due", QUIET, something_falls_due),
        ("one asks twice, quiet", QUIET, one_asks_twice),
        ("one asks twice, quiet soon", quiet_soon, one_asks_twice),
        ("it stops meanwhile, quiet", QUIET, it_stops_meanwhile),
        ("it stops meanwhile, busy", BUSY, it_stops_meanwhile),
        ("workers ask, quiet", QUIET, workers_ask),
        ("workers ask, a question a round", sliced, workers_ask),
        ("workers ask, and a round waits for all", gathered, workers_ask),
        ("an outsider asks, quiet", QUIET, an_outsider_asks),
        ("an outsider asks, a question a round", sliced, an_outsider_asks),
        ("workers ask, crowded", crowded, workers_ask),
        ("workers ask, busy", BUSY, workers_ask),
    ]
};

#[test]
fn requests_are_served_by_one_writer_and_soon() {
    switch_as_told();
    for (name, plan, model) in ALL {
        let began = std::time::Instant::now();
        check(plan, model);
        println!("{name}: {:?}", began.elapsed());
    }
}

use deliberate::switch_as_told;

/// Runs each bug in a separate process, because loom can abort when it finds one.
mod deliberate {
    use std::process::Command;

    use leasehold_core::mutant::{OF_ROUNDS, switch};

    /// The variable with the name of the bug in the child process.
    const MUTANT: &str = "ROUNDS_MUTANT";

    pub(super) fn switch_as_told() {
        let told = std::env::var(MUTANT).unwrap_or_default();
        switch(OF_ROUNDS.into_iter().find(|mutant| told == format!("{mutant:?}")));
    }

    #[test]
    fn every_deliberate_bug_is_found() {
        for mutant in OF_ROUNDS {
            let mut child = Command::new(std::env::current_exe().expect("this program"));
            let model = "models::requests_are_served_by_one_writer_and_soon";
            child.args(["--exact", model]);
            let ended = child.env(MUTANT, format!("{mutant:?}")).output().expect("it runs");
            let said = [ended.stdout, ended.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert!(!ended.status.success(), "{mutant:?} was not found");
            assert!(said.contains("deadlock"), "{mutant:?}: {said}");
        }
    }
}
