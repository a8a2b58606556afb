//! What a reader collects is what it would see if it looked at every lock, whatever happened in between.

use std::collections::BTreeMap;

use crate::model;
use leasehold_core::mutant::{Mutant, switch};
use leasehold_core::*;
use model::step;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// The number of seeds to try.
const SEEDS: u8 = 20;
/// The number of sequences per seed.
const SEQUENCES: usize = 10;
/// The maximum number of locks, and of sessions, in one collection.
const COLLECTED_MAX: usize = 2;

/// A reader's copy of all locks, by their slots, and of the deadlines of sessions.
#[derive(Default)]
struct Copy {
    after: u64,
    next_id: u64,
    locks: BTreeMap<usize, Shown>,
    sessions: BTreeMap<usize, Timestamp>,
}

/// What lists show of a lock.
#[derive(Clone, PartialEq, Debug)]
struct Shown {
    key: LockKey,
    counts: (usize, usize, bool),
    times: [Option<Timestamp>; 4],
    session: Option<usize>,
    dialect: Option<Dialect>,
    owners: Vec<(usize, Owner, Dialect)>,
}

impl Shown {
    fn of(lock: Glance<'_>) -> Self {
        let owners = lock.owners(9).map(|seen| (seen.at, seen.owner.clone(), seen.dialect));
        let held_since = lock.held_since();
        Self {
            key: LockKey::new(lock.namespace().clone(), lock.name()),
            counts: (lock.n_holders(), lock.n_waiting(), lock.is_only_shared()),
            times: [lock.grace_until(), held_since, lock.deadline(), lock.waited_since()],
            session: lock.session(),
            dialect: lock.dialect(),
            owners: owners.collect(),
        }
    }
}

impl Copy {
    /// Collects once, and returns whether there is more. If the answer is lost, the reader learns nothing.
    fn collect(&mut self, machine: &mut Machine, is_lost: bool) -> bool {
        self.next_id += 1;
        let collected = machine.collect(self.after, self.next_id, COLLECTED_MAX);
        assert!(collected.locks.len() <= COLLECTED_MAX, "the work of a turn is bounded");
        if is_lost {
            return true;
        }
        self.after = self.next_id;
        if collected.is_fresh {
            self.locks.clear();
            self.sessions.clear();
        }
        for at in collected.locks {
            match machine.glance(at) {
                Some(lock) => drop(self.locks.insert(at, Shown::of(lock))),
                None => drop(self.locks.remove(&at)),
            }
        }
        for (at, deadline) in collected.sessions {
            match deadline {
                Some(deadline) => drop(self.sessions.insert(at, deadline)),
                None => drop(self.sessions.remove(&at)),
            }
        }
        collected.n_left > 0
    }

    /// Returns the first difference from what a reader sees that looks at every lock.
    fn difference(&self, machine: &Machine) -> Option<String> {
        let all = (0..machine.n_slots()).filter_map(|at| Some((at, machine.glance(at)?)));
        let all: BTreeMap<_, _> = all.map(|(at, lock)| (at, Shown::of(lock))).collect();
        if all != self.locks {
            return Some(format!("{:?}, not {all:?}", self.locks));
        }
        self.locks.values().find_map(|shown| {
            let view = machine.lock(&shown.key, 0);
            let deadline = view.holders.first()?.deadline;
            // The view leaves out overdue leases.
            let is_whole = view.holders.len() == view.n_holders;
            let of_session = shown.session.and_then(|at| self.sessions.get(&at));
            let copied = shown.times[2].into_iter().chain(of_session.copied()).min();
            (is_whole && copied != deadline)
                .then(|| format!("{:?} ends at {copied:?}, not {deadline:?}", shown.key))
        })
    }
}

fn difference(steps: &[step::Step], seed: u8) -> Option<String> {
    let limits = model::tight();
    let mut machine = Machine::new(limits, 1);
    let mut copy = Copy::default();
    for (n, step) in steps.iter().enumerate() {
        let (now, command) = step.resolve(n, machine.now(), n as u64 / 2);
        machine.apply(now, command.clone());
        let chance = (n + usize::from(seed)) % 13;
        if chance < 4 {
            copy.collect(&mut machine, chance == 3 && n % 5 == 0);
        }
        if chance == 7 {
            while copy.collect(&mut machine, false) {}
            if let Some(why) = copy.difference(&machine) {
                return Some(format!("after {command:?}: {why}"));
            }
        }
    }
    None
}

fn find(mutant: Option<Mutant>) -> Option<String> {
    switch(mutant);
    let found = (0..SEEDS).find_map(|seed| {
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let sequence = step::sequence(50..200);
        (0..SEQUENCES).find_map(|_| {
            let steps = sequence.new_tree(&mut runner).expect("a sequence").current();
            difference(&steps, seed)
        })
    });
    switch(None);
    found
}

#[test]
fn what_is_collected_is_what_a_look_at_every_lock_shows() {
    assert_eq!(find(None), None);
    assert!(find(Some(Mutant::RenewalNotCollected)).is_some(), "the deliberate bug is not found");
}
