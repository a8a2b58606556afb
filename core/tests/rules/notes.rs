//! Compares the notes about leases with those of a naive account that checks every lease every time. Also tests that
//! the account notices deliberate bugs.

#![allow(clippy::print_stdout, reason = "what was found is worth seeing")]

#[allow(dead_code, reason = "only its random commands are used")]
use crate::model;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_core::*;
use model::step;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

const HELD_WARN: Span = Span::from_secs(4);
const WAIT_WARN: Span = Span::from_secs(3);
const DEADLOCK_AFTER: Span = Span::from_secs(1);
/// The number of sequences to try for each bug.
const SEQUENCES: usize = 2000;
/// The number of commands between restarts, in which the machine is exported and imported.
const RESTART_EVERY: usize = 17;

#[derive(Clone)]
struct Lease {
    lock: LockKey,
    owner: Owner,
    dialect: Dialect,
    /// The number of the first lease of its group, or its own number.
    first: LeaseNumber,
    phase: Phase,
    created_at: Timestamp,
    granted_at: Timestamp,
}

/// All leases that have not ended, according to the changes, and how often each kind of note was made about them.
#[derive(Default)]
struct Account {
    leases: BTreeMap<LeaseNumber, Lease>,
    n_noted: BTreeMap<(LeaseNumber, &'static str), usize>,
    swept_at: Timestamp,
}

impl Account {
    fn follow(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::LeaseAdded(record) => {
                    let first = record.group.map_or(record.number, |group| group.first);
                    let LeaseRecord { lock, owner, dialect, phase, created_at, granted_at, .. } =
                        (**record).clone();
                    let lease =
                        Lease { lock, owner, dialect, first, phase, created_at, granted_at };
                    self.leases.insert(record.number, lease);
                }
                Change::Granted { lease, at, .. } => {
                    self.set(*lease, Phase::Active).granted_at = *at;
                }
                Change::Parked { lease, .. } => drop(self.set(*lease, Phase::Parked)),
                Change::Attached { lease, .. } => drop(self.set(*lease, Phase::Waiting)),
                Change::Ended { lease, .. } => drop(self.leases.remove(lease)),
                _ => {}
            }
        }
    }

    fn set(&mut self, lease: LeaseNumber, phase: Phase) -> &mut Lease {
        let lease = self.leases.get_mut(&lease).expect("a lease that is not over");
        lease.phase = phase;
        lease
    }

    /// Returns the waiting leases of the group of this lease.
    fn unit(&self, first: LeaseNumber) -> impl Iterator<Item = (&LeaseNumber, &Lease)> {
        let unit = self.leases.iter().filter(move |(_, lease)| lease.first == first);
        unit.filter(|(_, lease)| lease.phase.is_queued())
    }

    /// Returns the owners a lease waits for.
    fn waits_for(&self, number: LeaseNumber) -> BTreeSet<Owner> {
        let lease = &self.leases[&number];
        if lease.phase != Phase::Waiting {
            return BTreeSet::new();
        }
        let on_lock = || self.leases.iter().filter(|(_, other)| other.lock == lease.lock);
        let holders = on_lock().filter(|(_, other)| other.phase == Phase::Active);
        let first = on_lock().find(|(_, other)| other.phase == Phase::Waiting);
        let first = first.filter(|(other, _)| **other != number);
        holders.chain(first).map(|(_, other)| other.owner.clone()).collect()
    }

    /// Returns whether an owner that this group waits for waits, perhaps through others, for the group's owner.
    fn is_in_circle(&self, first: LeaseNumber) -> bool {
        let mut reached = BTreeSet::new();
        let waits: Vec<_> = self.unit(first).flat_map(|(n, _)| self.waits_for(*n)).collect();
        let mut to_follow = waits;
        while let Some(owner) = to_follow.pop() {
            if reached.insert(owner.clone()) {
                let theirs = self.leases.iter().filter(|(_, lease)| lease.owner == owner);
                to_follow.extend(theirs.flat_map(|(number, _)| self.waits_for(*number)));
            }
        }
        let owner = self.unit(first).next().map(|(_, lease)| &lease.owner);
        owner.is_some_and(|owner| reached.contains(owner))
    }

    /// Compares, after a complete sweep, the notes it made with those it should have made. Returns the first
    /// difference.
    fn judge(&mut self, now: Timestamp, changes: &[Change]) -> Option<String> {
        let mut noted: BTreeMap<(LeaseNumber, &'static str), usize> = BTreeMap::new();
        for change in changes {
            if let Change::Noted { lease, what, .. } = change {
                let Some(of) = self.leases.get(lease) else {
                    return Some(format!("{lease:?} was over, but {what:?}"));
                };
                let (of, name) = match what {
                    Note::HeldLong => (*lease, "held"),
                    Note::WaitedLong => (of.first, "waited"),
                    Note::DeadlockSuspected => (of.first, "deadlock"),
                };
                *noted.entry((of, name)).or_default() += 1;
            }
        }
        for ((lease, name), n) in &noted {
            *self.n_noted.entry((*lease, *name)).or_default() += n;
        }
        let before = std::mem::replace(&mut self.swept_at, now);
        self.leases.iter().find_map(|(number, lease)| {
            let total = |name| self.n_noted.get(&(*number, name)).copied().unwrap_or(0);
            if lease.phase == Phase::Active {
                let is_share = is_share(lease.dialect, &lease.lock.name);
                let due = usize::from(lease.granted_at + HELD_WARN <= now && !is_share);
                return (total("held") != due)
                    .then(|| format!("{number:?} held: noted {} times, not {due}", total("held")));
            }
            if lease.first != *number {
                return None;
            }
            let due = usize::from(lease.created_at + WAIT_WARN <= now);
            if total("waited") != due {
                return Some(format!("{number:?} waits: noted {}, not {due}", total("waited")));
            }
            let since = before.max(lease.created_at);
            let has_doubled = doublings(lease, now) > doublings(lease, since);
            let suspected = usize::from(has_doubled && self.is_in_circle(*number));
            let n = noted.get(&(*number, "deadlock")).copied().unwrap_or(0);
            (n != suspected).then(|| format!("{number:?} suspected {n} times, not {suspected}"))
        })
    }
}

/// Returns how often a wait has doubled since the first check was due.
fn doublings(lease: &Lease, now: Timestamp) -> u32 {
    let mut n = 0;
    while lease.created_at + Span::from_nanos(DEADLOCK_AFTER.as_nanos() << n) <= now {
        n += 1;
    }
    n
}

/// Returns the first wrong or missing note, if any.
fn difference(steps: &[step::Step]) -> Option<String> {
    let limits = Limits {
        held_warn: HELD_WARN,
        wait_warn: WAIT_WARN,
        deadlock_after: DEADLOCK_AFTER,
        ..model::generous()
    };
    let mut machine = Machine::new(limits.clone(), 1);
    let mut account = Account::default();
    for (n, step) in steps.iter().enumerate() {
        if n % RESTART_EVERY == RESTART_EVERY - 1 {
            machine = Machine::import(limits.clone(), 1, machine.export()).expect("its own rows");
            machine.absorbed();
        }
        let (now, command) = step.resolve(n, machine.now(), n as u64 / 2);
        if matches!(command, Command::Sweep(_) | Command::Restore(_)) {
            continue;
        }
        account.follow(&machine.apply(now, command).changes);
        let swept = machine.apply(now, Sweep { n_changes_max: 100_000 });
        account.follow(&swept.changes);
        if let Some(why) = account.judge(machine.now(), &swept.changes) {
            return Some(why);
        }
        if let Err(why) = invariant::check(&machine) {
            return Some(why);
        }
    }
    None
}

fn find(n_sequences: usize) -> Option<(usize, String)> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let sequence = step::sequence(50..150);
    (0..n_sequences).find_map(|n| {
        let steps = sequence.new_tree(&mut runner).expect("a sequence").current();
        Some((n, difference(&steps)?))
    })
}

#[test]
fn what_is_noted_is_what_a_naive_account_notes() {
    assert_eq!(find(500), None);
}

#[test]
fn every_deliberate_bug_is_noticed() {
    use leasehold_core::mutant::{OF_NOTES, switch};
    let mut missed = Vec::new();
    for mutant in OF_NOTES {
        switch(Some(mutant));
        let found = find(SEQUENCES);
        switch(None);
        match found {
            Some((n, why)) => println!("{mutant:?}: sequence {n}: {why}"),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
