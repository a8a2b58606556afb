//! Tests that the engine answers nothing before it is durable, and never claims what it cannot know.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold_base::clock::FakeClock;
use leasehold_core::{
    Acquire, Dialect, Limits, LockKey, LockView, Owner, Rejection, Revoke, Secret, Span, Target,
};
use leasehold_engine::{
    Ask, Call, Engine, EngineHandle, Error, Options, Probe, ReadLock, WaitFor, Waited,
};
use leasehold_server::metrics::Metrics;
use leasehold_store::memory::MemoryStore;
use leasehold_store::{self as store, Draft, JournalSize, Loaded, Permit, Store};
use leasehold_testkit::{Faults, FaultyStore};

struct World {
    engine: Engine,
    handle: EngineHandle,
    faults: Arc<Faults>,
    clock: Arc<FakeClock>,
    metrics: Arc<Metrics>,
}

fn start(options: Options) -> World {
    let store = FaultyStore::default();
    let faults = store.faults.clone();
    let (clock, metrics) =
        (Arc::new(FakeClock::default()), Arc::new(Metrics::new(leasehold_server::dialect::NAMES)));
    let (engine, handle) =
        Engine::start(options, Box::new(store), clock.clone(), metrics.engine.clone())
            .expect("a start");
    World { engine, handle, faults, clock, metrics }
}

fn key() -> LockKey {
    LockKey::new("default", "db")
}

fn acquire(owner: &str, wait: Span) -> WaitFor {
    let owner = Owner::new("anonymous", owner);
    let acquire = Acquire {
        ttl: Some(Span::from_secs(30)),
        ..Acquire::new(key(), owner, Dialect(0), Secret([1; 16]))
    };
    WaitFor { acquire, wait }
}

const NO_WAIT: Span = Span::ZERO;
const LONG_WAIT: Span = Span::from_secs(60);

type Told = Result<Result<Waited, Rejection>, Error>;

/// Returns whether the lock was granted, and marks the grant as delivered.
fn is_granted(told: Told) -> bool {
    let Ok(Ok(Waited::Granted(granted))) = told else { return false };
    granted.deliver();
    true
}

async fn look(handle: &EngineHandle) -> LockView {
    *handle
        .ask_unchecked(ReadLock { key: key(), n_queue_max: 0 })
        .await
        .expect("an answer")
        .expect("a lock")
}

async fn n_waiting(handle: &EngineHandle) -> usize {
    look(handle).await.n_waiting
}

/// Makes `a` hold the lock and `b` wait for it.
async fn held_and_waited_for(world: &World, wait: Span) -> tokio::task::JoinHandle<Told> {
    assert!(is_granted(world.handle.ask_unchecked(acquire("a", NO_WAIT)).await));
    let handle = world.handle.clone();
    let waiter = tokio::spawn(async move { handle.ask_unchecked(acquire("b", wait)).await });
    while n_waiting(&world.handle).await == 0 {
        tokio::task::yield_now().await;
    }
    waiter
}

#[tokio::test]
async fn busy_means_that_nothing_was_done() {
    let world = start(Options::default());
    world.faults.busy.store(true, Relaxed);
    assert_eq!(world.handle.ask_unchecked(acquire("a", NO_WAIT)).await.unwrap_err(), Error::Busy);
    assert_eq!(world.handle.ask_unchecked(Probe).await.unwrap_err(), Error::Busy);
    world.faults.busy.store(false, Relaxed);
    assert!(is_granted(world.handle.ask_unchecked(acquire("b", NO_WAIT)).await), "a never had it");
    let metrics = world.metrics.render();
    assert!(metrics.contains("lock_db_busy_total{op=\"acquire\"} 1"), "{metrics}");
    assert!(metrics.contains("lock_acquire_total{result=\"busy\"} 1"), "{metrics}");
}

#[tokio::test]
async fn an_append_whose_outcome_is_unknown_stops_the_engine_and_claims_nothing() {
    let world = start(Options::default());
    let waiter = held_and_waited_for(&world, LONG_WAIT).await;
    world.faults.unknown.store(true, Relaxed);
    let revoke = Revoke { target: Target::Lock(key()), reason: "test".into() };
    let told = world.handle.ask_unchecked(revoke).await;
    assert_eq!(told.unwrap_err(), Error::Unknown);
    assert_eq!(waiter.await.expect("no panic").unwrap_err(), Error::Unknown);
    world.handle.stopped().await;
    assert!(
        world.handle.ask_unchecked(acquire("c", NO_WAIT)).await.is_err(),
        "it answers no more requests"
    );
    assert!(world.engine.join().is_err(), "and says that it ended badly");
}

#[tokio::test]
async fn a_full_channel_refuses_instead_of_growing() {
    let world = start(Options { queue_max: 4, ..Options::default() });
    let calls: Vec<_> =
        (0..5000).map(|_| world.handle.ask_unchecked(acquire("a", NO_WAIT))).collect();
    let (mut n_granted, mut n_overloaded) = (0, 0);
    for call in calls {
        match call.await {
            Err(Error::Overloaded) => n_overloaded += 1,
            reply => n_granted += usize::from(is_granted(reply)),
        }
    }
    assert!(n_overloaded > 0, "none was refused");
    assert_eq!(n_granted, 1);
}

#[tokio::test]
async fn a_waiter_that_goes_away_leaves_the_queue() {
    let world = start(Options::default());
    let waiter = held_and_waited_for(&world, LONG_WAIT).await;
    waiter.abort();
    while n_waiting(&world.handle).await > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_undelivered_grant_is_released() {
    let world = start(Options::default());
    for n in 0..200 {
        // The call is dropped at any stage: in the channel, applied, or answered but not read.
        let call = world.handle.ask_unchecked(acquire("a", NO_WAIT));
        tokio::time::sleep(Duration::from_micros(n % 20)).await;
        drop(call);
    }
    while !is_granted(world.handle.ask_unchecked(acquire("b", NO_WAIT)).await) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_grant_also_delivered_to_another_connection_is_not_released() {
    let world = start(Options::default());
    let named = |id: &str| {
        let mut asked = acquire("a", LONG_WAIT);
        asked.acquire.request_id = Some(id.into());
        asked
    };
    let is_held = async || !look(&world.handle).await.holders.is_empty();
    // The first call is granted, but its answer is not read. The client repeats the request, gets the answer, and then
    // its first connection breaks.
    let first = world.handle.ask_unchecked(named("r"));
    assert!(is_granted(world.handle.ask_unchecked(named("r")).await));
    drop(first);
    assert!(is_held().await && is_held().await, "the second connection was told that it holds");
    // The same if both calls waited.
    let revoke = Revoke { target: Target::Lock(key()), reason: "test".into() };
    assert!(world.handle.ask_unchecked(revoke).await.is_ok());
    assert!(is_granted(world.handle.ask_unchecked(acquire("b", NO_WAIT)).await));
    let (first, second) =
        (world.handle.ask_unchecked(named("r2")), world.handle.ask_unchecked(named("r2")));
    while n_waiting(&world.handle).await == 0 {
        tokio::task::yield_now().await;
    }
    world.clock.advance(Span::from_secs(30));
    assert!(is_granted(second.await));
    drop(first);
    assert!(is_held().await && is_held().await, "the second connection was told that it holds");
}

#[tokio::test]
async fn a_waiter_is_told_when_its_wait_is_over() {
    let world = start(Options::default());
    let waiter = held_and_waited_for(&world, Span::from_secs(10)).await;
    world.clock.advance(Span::from_secs(10));
    let told = waiter.await.expect("no panic");
    assert!(matches!(told, Ok(Ok(Waited::Over(view))) if view.holders.len() == 1));
}

#[tokio::test]
async fn stopping_answers_those_who_wait_and_ends_well() {
    let world = start(Options::default());
    let waiter = held_and_waited_for(&world, LONG_WAIT).await;
    world.handle.stop();
    assert_eq!(waiter.await.expect("no panic").unwrap_err(), Error::Stopping);
    world.handle.stopped().await;
    world.engine.join().expect("a good end");
    assert_eq!(
        world.handle.ask_unchecked(acquire("c", NO_WAIT)).await.unwrap_err(),
        Error::Stopping
    );
}

/// A worker thread of the server: it sends requests, and its flusher runs afterwards.
struct Worker {
    handle: EngineHandle,
    flusher: Pin<Box<dyn Future<Output = ()>>>,
}

impl Worker {
    fn new(handle: &EngineHandle) -> Self {
        let (handle, _) = handle.with_mailbox();
        Self { flusher: Box::pin(handle.flush()), handle }
    }

    /// Waits until the engine has nothing else to do, so that this thread runs the engine itself.
    fn quiet(handle: &EngineHandle) -> Self {
        let mut worker = Self::new(handle);
        // The engine's own thread might run a few more times before it is idle.
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_secs(180) {
            let call = worker.handle.ask_unchecked(Probe);
            if worker.at_once(call).is_some() {
                return worker;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("it never answered itself");
    }

    /// Returns the answer if it is there immediately. No other task empties the mailbox, so an answer can only come
    /// from this thread.
    fn at_once<A: Ask>(&mut self, call: Call<A>) -> Option<Result<A::Answer, Error>> {
        let mut context = Context::from_waker(Waker::noop());
        assert!(self.flusher.as_mut().poll(&mut context).is_pending(), "it goes on");
        match pin!(call).poll(&mut context) {
            Poll::Ready(reply) => Some(reply),
            Poll::Pending => None,
        }
    }
}

#[test]
fn a_failure_in_place_of_the_engine_stops_it_all_the_same() {
    let world = start(Options::default());
    let mut worker = Worker::quiet(&world.handle);
    world.faults.unknown.store(true, Relaxed);
    let told = loop {
        let call = worker.handle.ask_unchecked(acquire("a", NO_WAIT));
        if let Some(told) = worker.at_once(call) {
            break told;
        }
    };
    // `Stopping` if the engine's own thread was quicker and has stopped.
    assert!(matches!(told, Err(Error::Unknown | Error::Stopping)), "{told:?}");
    assert!(world.engine.join().is_err());
    let call = worker.handle.ask_unchecked(Probe);
    assert!(matches!(worker.at_once(call), Some(Err(Error::Stopping))));
}

/// A slow store.
struct Slow(MemoryStore, Arc<FakeClock>);

impl Store for Slow {
    fn load(&mut self, limits: Limits, hash_seed: u128) -> Result<Loaded, store::Error> {
        self.0.load(limits, hash_seed)
    }

    fn reserve(&mut self) -> Result<Permit, store::Error> {
        // Longer than a worker thread can be delayed.
        self.1.advance(Span::from_millis(3));
        self.0.reserve()
    }

    fn append(&mut self, permit: Permit, draft: Draft<'_>) -> Result<(), store::Error> {
        self.0.append(permit, draft)
    }

    fn confirm(&mut self, permit: Permit) -> Result<(), store::Error> {
        self.0.confirm(permit)
    }

    fn settle(&mut self) -> Result<(), store::Error> {
        self.0.settle()
    }

    fn record_bytes_max(&self) -> usize {
        self.0.record_bytes_max()
    }

    fn is_near(&self) -> bool {
        self.0.is_near()
    }

    fn finish(&mut self) -> Result<(), store::Error> {
        self.0.finish()
    }

    fn journal(&self) -> JournalSize {
        self.0.journal()
    }
}

#[test]
fn no_thread_with_other_things_to_do_waits_for_a_slow_disk() {
    let (clock, metrics) =
        (Arc::new(FakeClock::default()), Arc::new(Metrics::new(leasehold_server::dialect::NAMES)));
    let store = Box::new(Slow(MemoryStore::default(), clock.clone()));
    let (_engine, handle) =
        Engine::start(Options::default(), store, clock, metrics.engine.clone()).expect("a start");
    let mut worker = Worker::new(&handle);
    for _ in 0..50 {
        let call = worker.handle.ask_unchecked(Probe);
        assert!(worker.at_once(call).is_none(), "it was held up");
        std::thread::sleep(Duration::from_millis(4));
    }
}

/// Waits until the store has reported `n` times that an outcome is unknown. Then waits a moment, in case the engine
/// does something wrong.
async fn until_unsettled(world: &World, n: usize) {
    while world.faults.n_unsettled.load(Relaxed) < n {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// Sends a request while the outcome of appends is unknown. Checks that it gets no answer yet.
async fn unsettled(world: &World, ttl: Span) -> tokio::task::JoinHandle<Told> {
    world.faults.unsettled.store(true, Relaxed);
    let handle = world.handle.clone();
    let mut asked = acquire("a", NO_WAIT);
    asked.acquire.ttl = Some(ttl);
    let told = tokio::spawn(async move { handle.ask_unchecked(asked).await });
    until_unsettled(world, 1).await;
    assert!(!told.is_finished(), "it is told before it is durable");
    told
}

#[tokio::test]
async fn an_append_that_is_settled_later_is_told_then() {
    let world = start(Options::default());
    let told = unsettled(&world, Span::from_secs(30)).await;
    world.faults.unsettled.store(false, Relaxed);
    assert!(is_granted(told.await.expect("no panic")));
    assert_eq!(look(&world.handle).await.holders.len(), 1);
}

#[tokio::test]
async fn a_lease_that_ran_out_before_it_was_settled_is_not_told_as_granted() {
    let world = start(Options::default());
    let told = unsettled(&world, Span::from_secs(5)).await;
    world.clock.advance(Span::from_secs(6));
    world.faults.unsettled.store(false, Relaxed);
    assert_eq!(told.await.expect("no panic").unwrap_err(), Error::Unknown);
}

#[tokio::test]
async fn a_wait_for_a_lease_that_expired_before_it_was_settled_has_an_unknown_outcome() {
    let settle_max = Duration::from_secs(3600);
    let world = start(Options { settle_max, ..Options::default() });
    let waiter = held_and_waited_for(&world, LONG_WAIT).await;
    world.faults.unsettled.store(true, Relaxed);
    // The holder's lease expires, and the waiter's lease starts.
    world.clock.advance(Span::from_secs(30));
    let handle = world.handle.clone();
    let probe = tokio::spawn(async move { handle.ask_unchecked(Probe).await });
    until_unsettled(&world, 1).await;
    assert!(!probe.is_finished() && !waiter.is_finished(), "nothing is told before it is durable");
    world.clock.advance(Span::from_secs(31));
    world.faults.unsettled.store(false, Relaxed);
    assert_eq!(waiter.await.expect("no panic").unwrap_err(), Error::Unknown);
}

#[tokio::test]
async fn an_append_that_is_never_settled_stops_the_engine() {
    let settle_max = Duration::from_secs(3);
    let world = start(Options { settle_max, ..Options::default() });
    let told = unsettled(&world, Span::from_secs(30)).await;
    world.clock.advance(Span::from_secs(2));
    // The engine retries at least once more.
    until_unsettled(&world, world.faults.n_unsettled.load(Relaxed) + 2).await;
    assert!(!told.is_finished(), "it gives up before its time");
    world.clock.advance(Span::from_secs(1));
    assert_eq!(told.await.expect("no panic").unwrap_err(), Error::Unknown);
    assert!(matches!(world.engine.join(), Err(store::Error::Unknown(_))));
}

#[tokio::test]
async fn an_overtaken_leader_answers_nothing_from_memory() {
    let world = start(Options::default());
    world.faults.fenced.store(true, Relaxed);
    let read = world.handle.ask_unchecked(ReadLock { key: key(), n_queue_max: 0 }).await;
    assert_eq!(read.unwrap_err(), Error::Stopping, "it was not confirmed");
    assert!(matches!(world.engine.join(), Err(store::Error::Fenced(_))));
    let world = start(Options::default());
    world.faults.fenced.store(true, Relaxed);
    let told = world.handle.ask_unchecked(acquire("a", NO_WAIT)).await;
    assert_eq!(told.unwrap_err(), Error::Unknown, "it was applied, and may be lost");
    assert!(matches!(world.engine.join(), Err(store::Error::Fenced(_))));
}

#[tokio::test]
async fn a_batch_ends_where_its_record_would_be_long() {
    let world = start(Options::default());
    // Not even two acquires fit into one record.
    world.faults.record_bytes_max.store(300, Relaxed);
    let calls: Vec<_> = (0..50)
        .map(|n| {
            let mut asked = acquire("a", NO_WAIT);
            asked.acquire.lock = LockKey::new("default", format!("db-{n}"));
            world.handle.ask_unchecked(asked)
        })
        .collect();
    for call in calls {
        assert!(is_granted(call.await));
    }
}

#[tokio::test]
async fn what_is_asked_together_is_asked_in_order_or_not_at_all() {
    use leasehold_auth::Permitted;
    let world = start(Options { queue_max: 3, ..Options::default() });
    let ask = |owner: &str| Permitted::unchecked(acquire(owner, NO_WAIT));
    let mut together = world.handle.together();
    let mut calls: Vec<_> = ["a", "b", "c"].map(|owner| together.ask(ask(owner))).into();
    together.send();
    assert!(is_granted(calls.remove(0).await));
    for call in calls {
        assert!(matches!(call.await, Ok(Err(Rejection::Held(_)))));
    }
    let mut together = world.handle.together();
    let calls = ["a", "b", "c", "d"].map(|owner| together.ask(ask(owner)));
    together.send();
    for call in calls {
        assert!(matches!(call.await, Err(Error::Overloaded)));
    }
    world.handle.together().send();
}
