//! Proves that the reference model can fail: it finds each deliberate bug in groups, shares and lists within a bounded
//! number of seeds.

#![allow(clippy::print_stdout, reason = "what was found is worth seeing")]

use crate::model;
use leasehold_core::mutant::{GROUPS, Mutant, OF_SHARES, switch};
use leasehold_core::*;
use model::{Model, step};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// The number of seeds to try for each bug before the test fails.
const SEEDS_MAX: u8 = 100;
/// The number of sequences per seed.
const SEQUENCES: usize = 20;
/// The number of commands between restarts, in which the machine is exported and imported.
const RESTART_EVERY: usize = 40;

/// Returns the first difference between the machine and the model, if any.
fn difference(steps: &[step::Step]) -> Option<String> {
    // Shorter than the waits, so that the limit has an effect.
    let park_max = Span::from_secs(1);
    let limits = Limits { park_max, resume_park_max: Span::from_secs(4), ..model::generous() };
    let mut machine = Machine::new(limits.clone(), 1);
    let mut model = Model::new(limits.clone());
    for (n, step) in steps.iter().enumerate() {
        if n % RESTART_EVERY == RESTART_EVERY - 1 {
            machine = Machine::import(limits.clone(), 1, machine.export()).expect("its own rows");
            machine.absorbed();
            model.restart();
        }
        let (now, command) = step.resolve(n, machine.now(), model.n_leases());
        let expected = model.apply(now, &command);
        machine.order_names(10);
        let applied = machine.apply(now, command.clone());
        let told = model::summary(&applied.outcome);
        if told != expected {
            return Some(format!("{command:?}: {told}, not {expected}"));
        }
        if let Some(fact) = applied.facts.iter().find(|fact| is_of_share(fact)) {
            return Some(format!("after {command:?}: {fact:?} is told"));
        }
        let seen = model::visible(&machine, model.n_leases());
        if seen != model.visible() {
            return Some(format!("after {command:?}: {seen:?}, not {:?}", model.visible()));
        }
        if let Err(why) = invariant::check(&machine) {
            return Some(format!("after {command:?}: {why}"));
        }
    }
    None
}

/// Returns whether the fact is about a share. Clients never name shares.
fn is_of_share(fact: &Fact) -> bool {
    is_share(fact.dialect, &fact.lock.name)
}

fn find(mutant: Option<Mutant>, seeds_max: u8) -> Option<(u8, String)> {
    switch(mutant);
    let found = (0..seeds_max).find_map(|seed| {
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let sequence = step::sequence(50..200);
        (0..SEQUENCES).find_map(|_| {
            let steps = sequence.new_tree(&mut runner).expect("a sequence").current();
            Some((seed, difference(&steps)?))
        })
    });
    switch(None);
    found
}

#[test]
fn every_deliberate_bug_is_found_and_nothing_else_is() {
    assert_eq!(find(None, 10), None);
    let mut missed = Vec::new();
    let others = [Mutant::NewLockNotListed, Mutant::ResumedAsDeparted];
    for mutant in GROUPS.into_iter().chain(OF_SHARES).chain(others) {
        match find(Some(mutant), SEEDS_MAX) {
            Some((seed, why)) => println!("{mutant:?}: seed {seed}: {why}"),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
