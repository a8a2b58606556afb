//! A lock with a very large number of shares.

use leasehold_core::*;

/// More shares than one command checks.
const N_SHARES: u64 = 10_002;
const OF_PATHS: Dialect = leasehold_core::OF_PATHS[0];

fn acquire(name: &str, mode: Mode) -> Acquire {
    let lock = LockKey::new("files", name);
    let ttl = Some(Span::from_secs(30));
    let plain = Acquire::new(lock, Owner::new("key:ann", "a"), OF_PATHS, Secret([7; 16]));
    Acquire { mode, ttl, ..plain }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::ZERO + Span::from_secs(seconds)
}

#[test]
fn no_command_ends_more_shares_than_one_lock_can_have_holders() {
    let mut machine = Machine::new(Limits::default(), 1);
    for _ in 0..N_SHARES {
        let applied = machine.apply(at(0), acquire("//", Mode::Shared));
        assert!(applied.outcome.is_ok() && applied.facts.is_empty());
    }
    let counts = machine.counts();
    assert_eq!((counts.n_active, counts.n_held, counts.n_held_leases), (N_SHARES as usize, 0, 0));
    // All shares are overdue, but one command ends only a limited number of them.
    let refused = machine.apply(at(30), acquire("//", Mode::Exclusive));
    assert!(matches!(refused.outcome, Err(Rejection::Held(_))));
    assert_eq!(machine.counts().n_active, 2);
    machine.apply(at(30), Sweep { n_changes_max: 100 });
    assert!(machine.apply(at(30), acquire("//", Mode::Exclusive)).outcome.is_ok());
    assert_eq!(invariant::check(&machine), Ok(()));
}
