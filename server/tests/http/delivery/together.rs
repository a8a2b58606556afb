//! Tests that a group of locks is granted in one response or not at all. If one lease ends between the grant and the
//! response, the response is that the wait is over, and the other leases are released.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use leasehold_base::clock::FakeClock;
use leasehold_core::{
    Acquire, AcquireAll, Dialect, LockKey, Mode, Other, Owner, Proof, Release, Revoke, Secret,
    Span, Target,
};
use leasehold_engine::{
    Ask, Call, EngineHandle, Options, ReadLock, Stepped, Take, WaitForAll, WaitedAll,
};
use leasehold_server::metrics::Metrics;
use leasehold_store::memory::MemoryStore;

use crate::delivery::Outcome;

const DIALECT: Dialect = Dialect(0);

#[test]
fn what_was_asked_for_together_is_told_whole() {
    told_whole().unwrap();
}

pub(crate) fn told_whole() -> Outcome {
    let (clock, metrics) =
        (Arc::new(FakeClock::default()), Arc::new(Metrics::new(leasehold_server::dialect::NAMES)));
    let store = Box::new(MemoryStore::default());
    let (mut engine, handle) =
        Stepped::start(Options::default(), store, clock, metrics.engine.clone()).expect("a start");
    let granted = ask(&mut engine, &handle, Take(acquire("a", "ann"))).expect("it is free");
    let ann = granted.deliver().lease;
    let wanted = AcquireAll {
        first: acquire("a", "bob"),
        others: vec![Other { name: "b".into(), mode: Mode::Exclusive, secret: Secret([8; 16]) }],
    };
    let waiting = handle.ask_unchecked(WaitForAll { acquire: wanted, wait: Span::from_secs(60) });
    let mut waiting = pin!(waiting);
    engine.turn();
    assert!(poll(waiting.as_mut()).is_pending(), "ann has one of them");
    // In one round, `ann` releases, `bob` is granted both locks, and one of them is revoked before the response to
    // `bob`.
    let proof = Proof::Id { id: ann.id, owner: owner("ann"), token: Some(ann.token), lock: None };
    let release = Release { proof, dialect: DIALECT, request_id: None };
    let target = Target::Lock(LockKey::new("default", "b"));
    let mut released = pin!(handle.ask_unchecked(release));
    let mut revoked = pin!(handle.ask_unchecked(Revoke { target, reason: "test".into() }));
    engine.turn();
    assert!(matches!(poll(released.as_mut()), Poll::Ready(Ok(Ok(_)))), "it was ann's");
    let Poll::Ready(Ok(Ok(leases))) = poll(revoked.as_mut()) else { panic!("no answer") };
    assert_eq!(leases.len(), 1, "bob had it");
    match poll(waiting.as_mut()) {
        Poll::Ready(Ok(Ok(WaitedAll::Over { .. }))) => {}
        other => return Err(format!("told in part: {other:?}")),
    }
    engine.turn();
    let read = ReadLock { key: LockKey::new("default", "a"), n_queue_max: 0 };
    let view = ask(&mut engine, &handle, read).expect("a lock");
    if view.holders.is_empty() { Ok(()) } else { Err("the rest was not released".into()) }
}

fn ask<A: Ask>(engine: &mut Stepped, handle: &EngineHandle, question: A) -> A::Answer {
    let mut call = pin!(handle.ask_unchecked(question));
    engine.turn();
    match poll(call.as_mut()) {
        Poll::Ready(Ok(answer)) => answer,
        _ => panic!("no answer"),
    }
}

fn poll<A: Ask>(call: Pin<&mut Call<A>>) -> Poll<<Call<A> as Future>::Output> {
    call.poll(&mut Context::from_waker(Waker::noop()))
}

fn acquire(lock: &str, who: &str) -> Acquire {
    let key = LockKey::new("default", lock);
    let ttl = Some(Span::from_secs(60));
    Acquire { ttl, ..Acquire::new(key, owner(who), DIALECT, Secret([7; 16])) }
}

fn owner(name: &str) -> Owner {
    Owner::new("anonymous", name)
}
