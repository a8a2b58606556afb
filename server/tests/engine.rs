//! The engine: nothing is answered before it is durable, and what cannot be known is never claimed.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use leasehold_core::{
    Acquire, Command, Dialect, LockKey, Outcome, Owner, Revoke, Secret, Span, Target, Wait,
};
use leasehold_server::clock::FakeClock;
use leasehold_server::engine::{Engine, EngineHandle, Error, Options, Read, Reply};
use leasehold_server::metrics::Metrics;
use leasehold_server::store::memory::{Faults, MemoryStore};

struct World {
    engine: Engine,
    handle: EngineHandle,
    faults: Arc<Faults>,
    clock: Arc<FakeClock>,
    metrics: Arc<Metrics>,
}

fn start(options: Options) -> World {
    let store = MemoryStore::default();
    let faults = store.faults.clone();
    let (clock, metrics) = (Arc::new(FakeClock::default()), Arc::new(Metrics::new()));
    let (engine, handle) =
        Engine::start(options, Box::new(store), clock.clone(), metrics.clone()).expect("a start");
    World { engine, handle, faults, clock, metrics }
}

fn key() -> LockKey {
    LockKey::new("default", "db")
}

fn acquire(owner: &str, wait: Wait) -> Command {
    let owner = Owner::new("anonymous", owner);
    Command::Acquire(Box::new(Acquire {
        ttl: Some(Span::from_secs(30)),
        wait,
        ..Acquire::new(key(), owner, Dialect(0), Secret([1; 16]))
    }))
}

fn waiting() -> Wait {
    Wait::Connected(Span::from_secs(60))
}

fn is_granted(reply: &Result<Reply, Error>) -> bool {
    matches!(reply, Ok(Reply::Applied(Ok(Outcome::Granted(_)))))
}

async fn n_waiting(handle: &EngineHandle) -> usize {
    match handle.read(Read::Lock { key: key(), n_queue_max: 0 }).await {
        Ok(Reply::Lock(view)) => view.n_waiting,
        other => panic!("{other:?}"),
    }
}

/// Somebody holds the lock, and somebody waits for it.
async fn held_and_waited_for(
    world: &World,
    wait: Wait,
) -> tokio::task::JoinHandle<Result<Reply, Error>> {
    assert!(is_granted(&world.handle.apply(acquire("a", Wait::No)).await));
    let handle = world.handle.clone();
    let waiter = tokio::spawn(async move { handle.apply(acquire("b", wait)).await });
    while n_waiting(&world.handle).await == 0 {
        tokio::task::yield_now().await;
    }
    waiter
}

#[tokio::test]
async fn busy_means_that_nothing_was_done() {
    let world = start(Options::default());
    world.faults.busy.store(true, Relaxed);
    assert_eq!(world.handle.apply(acquire("a", Wait::No)).await.unwrap_err(), Error::Busy);
    assert_eq!(world.handle.probe().await.unwrap_err(), Error::Busy);
    world.faults.busy.store(false, Relaxed);
    assert!(is_granted(&world.handle.apply(acquire("b", Wait::No)).await), "a never had it");
    let metrics = world.metrics.render();
    assert!(metrics.contains("lock_db_busy_total{op=\"acquire\"} 1"), "{metrics}");
    assert!(metrics.contains("lock_acquire_total{result=\"busy\"} 1"), "{metrics}");
}

#[tokio::test]
async fn an_append_whose_outcome_is_unknown_stops_the_engine_and_claims_nothing() {
    let world = start(Options::default());
    let waiter = held_and_waited_for(&world, waiting()).await;
    world.faults.unknown.store(true, Relaxed);
    let revoke = Revoke { target: Target::Lock(key()), reason: "test".into() };
    let told = world.handle.apply(Command::Revoke(revoke)).await;
    assert_eq!(told.unwrap_err(), Error::Unknown);
    assert_eq!(waiter.await.expect("no panic").unwrap_err(), Error::Unknown);
    world.handle.stopped().await;
    assert!(
        world.handle.apply(acquire("c", Wait::No)).await.is_err(),
        "it answers nobody any more"
    );
    assert!(world.engine.join().is_err(), "and says that it ended badly");
}

#[tokio::test]
async fn a_full_channel_refuses_instead_of_growing() {
    let world = start(Options { queue_max: 4, ..Options::default() });
    let calls: Vec<_> = (0..5000).map(|_| world.handle.apply(acquire("a", Wait::No))).collect();
    let (mut n_granted, mut n_overloaded) = (0, 0);
    for call in calls {
        match call.await {
            Err(Error::Overloaded) => n_overloaded += 1,
            reply => n_granted += usize::from(is_granted(&reply)),
        }
    }
    assert!(n_overloaded > 0, "none was refused");
    assert_eq!(n_granted, 1);
}

#[tokio::test]
async fn a_waiter_that_goes_away_leaves_the_queue() {
    let world = start(Options::default());
    let waiter = held_and_waited_for(&world, waiting()).await;
    waiter.abort();
    while n_waiting(&world.handle).await > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_grant_nobody_was_told_of_is_given_back() {
    let world = start(Options::default());
    for n in 0..200 {
        // Dropped at any stage: in the channel, applied, answered but not looked at.
        let call = world.handle.apply(acquire("a", Wait::No));
        tokio::time::sleep(Duration::from_micros(n % 20)).await;
        drop(call);
    }
    while !is_granted(&world.handle.apply(acquire("b", Wait::No)).await) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_grant_somebody_else_was_told_of_too_is_not_given_back() {
    let world = start(Options::default());
    let named = || {
        let Command::Acquire(mut acquire) = acquire("a", waiting()) else { panic!("no acquire") };
        acquire.request_id = Some("r".into());
        Command::Acquire(acquire)
    };
    let is_held = async || match world.handle.read(Read::Lock { key: key(), n_queue_max: 0 }).await
    {
        Ok(Reply::Lock(view)) => !view.holders.is_empty(),
        other => panic!("{other:?}"),
    };
    // Granted, but nobody has looked at the answer; the client asks again, is told, and then its first
    // connection breaks.
    let first = world.handle.apply(named());
    assert!(is_granted(&world.handle.apply(named()).await));
    drop(first);
    assert!(is_held().await && is_held().await, "the second connection was told that it holds");
    // The same if both waited.
    let revoke = Revoke { target: Target::Lock(key()), reason: "test".into() };
    assert!(world.handle.apply(Command::Revoke(revoke)).await.is_ok());
    assert!(is_granted(&world.handle.apply(acquire("b", Wait::No)).await));
    let Command::Acquire(mut again) = named() else { panic!("no acquire") };
    again.request_id = Some("r2".into());
    let again = Command::Acquire(again);
    let (first, second) = (world.handle.apply(again.clone()), world.handle.apply(again));
    while n_waiting(&world.handle).await == 0 {
        tokio::task::yield_now().await;
    }
    world.clock.advance(Span::from_secs(30));
    assert!(is_granted(&second.await));
    drop(first);
    assert!(is_held().await && is_held().await, "the second connection was told that it holds");
}

#[tokio::test]
async fn a_waiter_is_told_when_its_wait_is_over() {
    let world = start(Options::default());
    let waiter = held_and_waited_for(&world, Wait::Connected(Span::from_secs(10))).await;
    world.clock.advance(Span::from_secs(10));
    let told = waiter.await.expect("no panic");
    assert!(matches!(told, Ok(Reply::WaitOver(view)) if view.holders.len() == 1));
}

#[tokio::test]
async fn stopping_answers_those_who_wait_and_ends_well() {
    let world = start(Options::default());
    let waiter = held_and_waited_for(&world, waiting()).await;
    world.handle.stop();
    assert_eq!(waiter.await.expect("no panic").unwrap_err(), Error::Stopping);
    world.handle.stopped().await;
    world.engine.join().expect("a good end");
    assert_eq!(world.handle.apply(acquire("c", Wait::No)).await.unwrap_err(), Error::Stopping);
}
