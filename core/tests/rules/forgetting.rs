//! Released and forgotten locks leave no data behind.

use leasehold_core::*;

#[test]
fn fifty_thousand_locks_come_and_go_without_a_trace() {
    let limits = Limits { idle_max: 0, ..Limits::default() };
    let mut machine = Machine::new(limits, 1);
    for n in 0..50_000 {
        let applied = machine.apply(Timestamp::ZERO, acquire(n));
        let Ok(Acquired::Granted(grant)) = applied.outcome else { panic!("it is free") };
        let id = grant.lease.id;
        let owner = Owner::new("anonymous", "worker-1");
        let proof = Proof::Id { id, owner, token: None, lock: None };
        let release = Release { proof, dialect: Dialect(0), request_id: None };
        machine.apply(Timestamp::ZERO, release);
        machine.apply(Timestamp::ZERO, Sweep { n_changes_max: 10 });
    }
    assert_eq!(machine.counts(), Counts::default());
}

fn acquire(n: usize) -> Acquire {
    let lock = LockKey::new("default", format!("orders/{n}"));
    let owner = Owner::new("anonymous", "worker-1");
    Acquire::new(lock, owner, Dialect(0), Secret([7; 16]))
}
