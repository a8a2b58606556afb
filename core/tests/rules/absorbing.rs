//! Tests changes that commands make only together with others, and that their effect survives an import.

use std::sync::Arc;

use leasehold_core::*;

fn acquire(namespace: &str) -> Acquire {
    let (lock, owner) = (LockKey::new(namespace, "a"), Owner::new("ann", "laptop"));
    Acquire::new(lock, owner, Dialect(0), Secret([7; 16]))
}

fn token(applied: &Applied<Acquired>) -> u64 {
    let Ok(Acquired::Granted(grant)) = &applied.outcome else { panic!("it is free: {applied:?}") };
    grant.lease.token.get()
}

fn absorb(machine: &mut Machine, change: Change) -> Result<(), Incoherent> {
    machine.absorb(machine.now(), &[change])
}

/// Returns the machine after a restart, which must have the same state.
fn again(machine: &Machine) -> Machine {
    let imported = Machine::import(Limits::default(), 2, machine.export()).expect("its own rows");
    assert_eq!(imported.export(), machine.export());
    assert_eq!(invariant::check(&imported), Ok(()));
    imported
}

#[test]
fn a_forgotten_namespace_leaves_its_tokens_to_all_that_are_not_known() {
    let mut machine = Machine::new(Limits::default(), 1);
    let forget = |namespace: &str| Change::NamespaceForgotten { namespace: namespace.into() };
    assert_eq!(token(&machine.apply(Timestamp::ZERO, acquire("kept"))), 1);
    for expected in 1..=3 {
        let granted = machine.apply(Timestamp::ZERO, acquire("shop"));
        assert_eq!(token(&granted), expected);
        let why = absorb(&mut machine, forget("shop")).expect_err("it has a lock");
        assert!(why.to_string().contains("has locks"), "{why}");
        let revoke =
            Revoke { target: Target::Lock(LockKey::new("shop", "a")), reason: "a test".into() };
        let Change::Ended { lease, .. } = machine.apply(Timestamp::ZERO, revoke).changes[0] else {
            panic!("not revoked")
        };
        absorb(&mut machine, Change::LeaseForgotten { lease }).expect("it has ended");
    }
    let lock = LockKey::new("shop", "a");
    absorb(&mut machine, Change::LockForgotten { lock }).expect("it is idle");
    absorb(&mut machine, forget("shop")).expect("it is empty");
    assert!(absorb(&mut machine, forget("shop")).is_err(), "it is gone");
    for machine in [&mut again(&machine), &mut machine] {
        assert_eq!(machine.lock(&LockKey::new("kept", "b"), 0).last_token.get(), 0);
        assert_eq!(token(&machine.apply(Timestamp::ZERO, acquire("shop"))), 4);
        assert_eq!(token(&machine.apply(Timestamp::ZERO, acquire("new"))), 4);
        assert_eq!(invariant::check(machine), Ok(()));
    }
}

#[test]
fn who_asked_comes_before_what_was_done_and_only_then() {
    let mut machine = Machine::new(Limits::default(), 1);
    let asker = Arc::new(Asker { principal: "ann".into(), ..Asker::default() });
    let applied = machine.apply_for(Some(asker.clone()), Timestamp::ZERO, acquire("shop"));
    assert_eq!(applied.changes[0], Change::Asked { asker: asker.clone(), n_changes: 1 });
    assert_eq!(applied.changes.len(), 2);
    let mut follower = Machine::new(Limits::default(), 3);
    follower.absorb(Timestamp::ZERO, &applied.changes).expect("its own changes");
    assert_eq!(follower.export(), machine.export());
    // A reader of the journal reports the same facts with the same callers.
    let mut teller = Machine::new(Limits::default(), 4);
    let mut facts = Vec::new();
    let free = machine.apply(Timestamp::ZERO, acquire("free"));
    let changes = [&applied.changes[..], &free.changes].concat();
    teller.absorb_and_tell(Timestamp::ZERO, &changes, &mut facts).expect("its own changes");
    assert_eq!(facts, [applied.facts, free.facts].concat());
    let askers: Vec<_> = facts.iter().map(|fact| fact.asker.clone()).collect();
    assert_eq!(askers, [Some(asker.clone()), None]);
    // An unauthenticated caller appears in facts, but not in the journal.
    let stranger = Arc::new(Asker { peer: "127.0.0.1".into(), ..Asker::default() });
    let applied = machine.apply_for(Some(stranger.clone()), Timestamp::ZERO, acquire("other"));
    assert_eq!((applied.changes.len(), &applied.facts[0].asker), (1, &Some(stranger)));
    let refused = machine.apply_for(Some(asker), Timestamp::ZERO, acquire("shop"));
    assert!(refused.outcome.is_err() && refused.changes.is_empty());
}

#[test]
fn maintenance_and_notes_outlive_a_restart_or_change_nothing() {
    let mut machine = Machine::new(Limits::default(), 1);
    machine.apply(Timestamp::ZERO, acquire("shop"));
    let before = machine.export();
    let noted = Change::Noted {
        lease: LeaseNumber(9),
        what: Note::HeldLong,
        at: Timestamp::ZERO,
        reason: None,
    };
    absorb(&mut machine, noted).expect("whatever it is about");
    assert_eq!(machine.export(), before);
    absorb(&mut machine, Change::Maintenance { on: true }).expect("it was off");
    assert!(again(&machine).is_in_maintenance());
    absorb(&mut machine, Change::Maintenance { on: false }).expect("it was on");
    assert_eq!(machine.export(), before);
}

#[test]
fn a_group_and_a_credential_are_part_of_what_is_kept() {
    let mut machine = Machine::new(Limits::default(), 1);
    let Change::LeaseAdded(mut lease) =
        machine.apply(Timestamp::ZERO, acquire("shop")).changes.remove(0)
    else {
        panic!("not granted")
    };
    let mut machine = Machine::new(Limits::default(), 1);
    lease.group = Some(Group { first: LeaseNumber(1), size: 3 });
    absorb(&mut machine, Change::LeaseAdded(lease.clone())).expect("siblings need not be known");
    assert_eq!(again(&machine).lease_record(lease.number), Some(*lease));
    let not_after = Timestamp::ZERO + Span::from_secs(90);
    let credential = Credential { id: "key-1".into(), groups: vec!["ops".into()], not_after };
    let session = SessionRecord {
        number: SessionNumber(1),
        digest: SessionDigest([1; 32]),
        owner: Owner::new("ann", "laptop"),
        dialect: Dialect(4),
        ttl: Span::from_secs(60),
        opened_at: Timestamp::ZERO,
        deadline: Timestamp::ZERO + Span::from_secs(60),
        ended: None,
        credential: Some(Arc::new(credential)),
        peer: None,
    };
    let digest = session.digest;
    absorb(&mut machine, Change::SessionOpened(Box::new(session.clone()))).expect("new");
    assert_eq!(again(&machine).session(&digest), Some(session));
    let keep = KeepSession { session: digest, principal: None, dialect: Dialect(4) };
    let kept = machine.apply(Timestamp::ZERO + Span::from_secs(50), keep).outcome;
    assert_eq!(kept, Ok(not_after), "no keep-alive outlasts the credential");
}
