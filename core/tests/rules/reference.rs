//! Long random command sequences: compares the machine with the reference model, with a second machine, and with a
//! follower that only absorbs its changes.
//!
//! A failure prints the shrunken sequence. Proptest writes its seed next to this file, to replay it.

use crate::model;
use leasehold_core::*;
use model::{Model, step};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn the_machine_does_what_the_model_does(steps in step::sequence(1..200)) {
        let limits = model::generous();
        let mut machine = Machine::new(limits.clone(), 1);
        let mut model = Model::new(limits);
        for (n, step) in steps.iter().enumerate() {
            let (now, command) = step.resolve(n, machine.now(), model.n_leases());
            let expected = model.apply(now, &command);
            machine.order_names(2);
            let applied = machine.apply(now, command.clone());
            let told = model::summary(&applied.outcome);
            prop_assert_eq!(told, expected, "at {:?}: {:?}", now, command);
            prop_assert_eq!(model.visible(), model::visible(&machine, model.n_leases()), "after {:?}", command);
            prop_assert_eq!(invariant::check(&machine), Ok(()), "after {:?}", command);
        }
    }

    #[test]
    fn the_same_commands_give_the_same_bytes_and_the_changes_give_the_state(
        steps in step::sequence(1..200),
    ) {
        let limits = model::tight();
        let mut machine = Machine::new(limits.clone(), 1);
        let mut twin = Machine::new(limits.clone(), 2);
        let mut follower = Machine::new(limits.clone(), 3);
        let mut restarted = Machine::new(limits.clone(), 5);
        let mut granted = std::collections::BTreeMap::new();
        for (n, step) in steps.iter().enumerate() {
            let (now, command) = step.resolve(n, machine.now(), n as u64 / 2);
            if n == steps.len() / 2 {
                let rows = machine.export();
                restarted = Machine::import(limits.clone(), 5, rows).expect("its own export");
            }
            let applied = machine.apply(now, command.clone());
            restarted.absorb(machine.now(), &applied.changes).expect("its own changes");
            // Ordering names must not affect any outcome.
            twin.order_names(1);
            let again = twin.apply(now, command.clone());
            prop_assert_eq!(format!("{applied:?}").into_bytes(), format!("{again:?}").into_bytes());
            follower.absorb(machine.now(), &applied.changes).expect("its own changes");
            prop_assert_eq!(&machine.export()[1..], &follower.export()[1..], "after {:?}", command);
            prop_assert_eq!(invariant::check(&machine), Ok(()), "after {:?}", command);
            check_tokens_grow(&mut granted, &applied.changes, &machine)?;
            check_budgets(&machine)?;
        }
        let mut imported = Machine::import(limits, 4, machine.export()).expect("its own export");
        prop_assert_eq!(imported.export(), machine.export());
        imported.absorbed();
        prop_assert_eq!(invariant::check(&imported), Ok(()));
        // Does what a server does at startup: imports the tables, absorbs the journal after them, then sweeps.
        restarted.absorbed();
        prop_assert_eq!(&restarted.export()[1..], &machine.export()[1..]);
        prop_assert_eq!(invariant::check(&restarted), Ok(()));
        restarted.apply(machine.now(), Sweep { n_changes_max: usize::MAX });
        prop_assert_eq!(invariant::check(&restarted), Ok(()));
    }
}

/// Checks that every token of a lock is above all earlier ones, regardless of what was forgotten in between.
fn check_tokens_grow(
    granted: &mut std::collections::BTreeMap<LockKey, Token>,
    changes: &[Change],
    machine: &Machine,
) -> Result<(), TestCaseError> {
    for change in changes {
        let (lock, token) = match change {
            Change::LeaseAdded(record) if record.phase == Phase::Active => {
                (record.lock.clone(), record.token)
            }
            Change::Granted { lease, token, .. } => match machine.lease_record(*lease) {
                Some(record) => (record.lock, *token),
                None => continue,
            },
            _ => continue,
        };
        let last = granted.insert(lock.clone(), token);
        prop_assert!(last < Some(token), "{lock:?}: {last:?} then {token:?}");
    }
    Ok(())
}

/// Checks that all budgets are kept. Renewals and releases are never rejected because of the budget for request ids, so
/// each active lease can have two ids in excess of it.
fn check_budgets(machine: &Machine) -> Result<(), TestCaseError> {
    let (limits, bytes) = (machine.limits(), machine.counts().bytes);
    prop_assert!(bytes.metadata <= limits.metadata_total_bytes_max, "{bytes:?}");
    prop_assert!(bytes.names <= limits.names_total_bytes_max, "{bytes:?}");
    prop_assert!(bytes.queues <= limits.queues_total_bytes_max, "{bytes:?}");
    prop_assert!(bytes.ended <= limits.ended_total_bytes_max, "{bytes:?}");
    let spare = 2 * 70 * machine.counts().n_active;
    prop_assert!(bytes.requests <= limits.requests_total_bytes_max + spare, "{bytes:?}");
    Ok(())
}

/// Returns the number of test cases: by default a few seconds' worth, with `PROPTEST_CASES=100000` a long run.
#[allow(clippy::disallowed_methods, reason = "only how long the test runs depends on it")]
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(1000)
}
