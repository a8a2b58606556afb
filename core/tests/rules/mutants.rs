//! The reference model must be able to fail: each deliberate bug in what is asked for together or listed is found
//! within a bounded number of seeds.

#![allow(clippy::print_stdout, reason = "what was found is worth seeing")]

use crate::model;
use leasehold_core::mutant::{GROUPS, Mutant, OF_SHARES, switch};
use leasehold_core::*;
use model::{Model, step};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Seeds tried for each bug before the model counts as blind to it.
const SEEDS_MAX: u8 = 100;
/// Each seed gives so many sequences.
const SEQUENCES: usize = 20;
/// After so many commands the machine goes through its tables, as by a restart.
const RESTART_EVERY: usize = 40;

/// What the machine did that the model would not, if anything.
fn difference(steps: &[step::Step]) -> Option<String> {
    // Shorter than waits are, or else it would make no difference.
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

/// Is it about a share, which no client asks for by name?
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
