//! Tests that a server whose shared store is silent ends its waits, and that its waiters keep their places.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use leasehold_base::clock::{FakeClock, LockClock};
use leasehold_core::mutant::{self, Mutant, OF_SILENCE};
use leasehold_core::{
    Acquire, Acquired, Command, Dialect, GrantKind, Limits, LockKey, LockView, Outcome, Owner,
    Phase, Revoke, Secret, Span, Target, Timestamp, Wait,
};
use tokio::sync::oneshot::{Receiver, channel};

use super::has_lapsed;
use crate::Options;
use crate::ask::{Question, Reply};
use crate::durability::Durability;
use crate::error::Error;
use crate::event::EventLog;
use crate::mailbox::{Answered, ReplyTo, Told};
use crate::message::Asked;
use crate::metrics::{Book, EngineMetrics};
use crate::rounds::Work;
use crate::shared::Shared;
use crate::writer::Writer;
use leasehold_store::memory::MemoryStore;
use leasehold_store::{self as store, Draft, JournalSize, Loaded, Permit, Store};

/// How many seconds a waiter keeps its place (`resume_park_max`).
const STAY: u64 = 60;

/// A shared store that does not answer while it is mute.
struct MuteStore {
    inner: MemoryStore,
    is_mute: Arc<AtomicBool>,
    record_bytes_max: usize,
}

impl MuteStore {
    fn answer<T>(&self, answer: T, silence: store::Error) -> Result<T, store::Error> {
        if self.is_mute.load(Relaxed) { Err(silence) } else { Ok(answer) }
    }
}

impl Store for MuteStore {
    fn load(&mut self, limits: Limits, hash_seed: u128) -> Result<Loaded, store::Error> {
        self.inner.load(limits, hash_seed)
    }

    fn reserve(&mut self) -> Result<Permit, store::Error> {
        self.inner.reserve()
    }

    fn append(&mut self, permit: Permit, draft: Draft<'_>) -> Result<(), store::Error> {
        let n_bytes: usize = draft.changes.iter().map(store::bytes_at_most).sum();
        assert!(n_bytes <= self.record_bytes_max, "a record of {n_bytes} bytes");
        self.inner.append(permit, draft)?;
        self.answer((), store::Error::Unsettled("mute".into()))
    }

    fn confirm(&mut self, _: Permit) -> Result<(), store::Error> {
        self.answer((), store::Error::Busy)
    }

    fn settle(&mut self) -> Result<(), store::Error> {
        self.answer((), store::Error::Unsettled("mute".into()))
    }

    fn record_bytes_max(&self) -> usize {
        self.record_bytes_max
    }

    fn is_near(&self) -> bool {
        false
    }

    fn finish(&mut self) -> Result<(), store::Error> {
        Ok(())
    }

    fn journal(&self) -> JournalSize {
        self.inner.journal()
    }

    fn lease(&self) -> Option<Duration> {
        Some(Duration::from_secs(2))
    }
}

/// A leader whose rounds the test runs.
struct Leader {
    writer: Writer,
    clock: Arc<FakeClock>,
    is_mute: Arc<AtomicBool>,
}

impl Leader {
    fn new(tick: Duration, record_bytes_max: usize) -> Self {
        let is_mute = Arc::new(AtomicBool::new(false));
        let inner = MemoryStore::default();
        let mut store = MuteStore { inner, is_mute: is_mute.clone(), record_bytes_max };
        let options = Options { tick, ..Options::default() };
        let loaded = store.load(options.limits.clone(), 1).expect("a state");
        let clock = Arc::new(FakeClock::default());
        let lock_clock = LockClock::resume(clock.clone(), None);
        let shared = Arc::new(Shared::new(options.queue_max));
        let events = Arc::new(EventLog::new(1, 0, Vec::new(), options.kept()));
        let (seat, metrics) = (
            (Box::new(store) as _, 1),
            Arc::new(EngineMetrics::register(&mut Book::default(), &[])),
        );
        let how = (options, Durability::Shared);
        let writer = Writer::new(how, seat, loaded.machine, lock_clock, shared, events, metrics);
        Self { writer, clock, is_mute }
    }

    /// Creates a leader with a lock that one client holds for 10 seconds and `n` clients wait for. All but the last
    /// waiter can repeat their requests.
    fn waited_for(tick: Duration, record_bytes_max: usize, n: usize) -> (Self, Vec<Waiting>) {
        let mut leader = Self::new(tick, record_bytes_max);
        let holder = Acquire { ttl: Some(Span::from_secs(10)), ..acquire("holder", Wait::No) };
        assert!(is_granted(leader.ask(holder).told(), GrantKind::New));
        let wait = |n_waiter: usize| {
            let mut wait = repeatable(n_waiter);
            wait.request_id = wait.request_id.filter(|_| n_waiter + 1 < n);
            leader.ask(wait)
        };
        let waiting = (0..n).map(wait).collect();
        (leader, waiting)
    }

    fn ask(&mut self, command: impl Into<Command>) -> Waiting {
        let (sender, receiver) = channel();
        let shared = self.writer.shared.clone();
        let asked = Asked {
            question: Question::Apply(command.into()),
            asker: None,
            ticket: shared.ticket(),
            reply_to: ReplyTo { sender, worker: None },
            sent_at: Instant::now(),
        };
        assert!(shared.inbox.ask(asked, None).is_ok());
        self.round();
        Waiting(receiver)
    }

    fn round(&mut self) {
        let _ = self.writer.round(None);
    }

    fn pass(&mut self, seconds: u64) {
        self.clock.advance(Span::from_secs(seconds));
        self.round();
    }

    /// Silences the store for this many seconds. Calls `first` in the first of them.
    fn is_silent(&mut self, seconds: u64, first: impl FnOnce(&mut Self)) {
        self.is_mute.store(true, Relaxed);
        first(self);
        for _ in 0..seconds {
            self.pass(1);
        }
        self.is_mute.store(false, Relaxed);
        // Runs rounds until nothing is left to do.
        for _ in 0..100 {
            self.round();
        }
    }

    fn lock(&self) -> LockView {
        self.writer.machine.lock(&key(), usize::MAX)
    }

    fn holders(&self) -> Vec<String> {
        self.lock().holders.iter().map(|holder| holder.owner.instance.to_string()).collect()
    }

    /// Returns the queue, and whether all its waiters are parked.
    fn queue(&self) -> (Vec<String>, bool) {
        let queue = self.lock().queue;
        let names = queue.iter().map(|waiter| waiter.owner.instance.to_string()).collect();
        (names, queue.iter().all(|waiter| waiter.phase == Phase::Parked))
    }
}

/// A pending answer.
struct Waiting(Receiver<Answered>);

impl Waiting {
    fn told(mut self) -> Option<Answered> {
        self.0.try_recv().ok()
    }
}

fn key() -> LockKey {
    LockKey::new("default", "db")
}

fn acquire(owner: &str, wait: Wait) -> Acquire {
    let owner = Owner::new("anonymous", owner);
    let ttl = Some(Span::from_secs(600));
    Acquire { ttl, wait, ..Acquire::new(key(), owner, Dialect(0), Secret([1; 16])) }
}

fn repeatable(n: usize) -> Acquire {
    let request_id = Some(format!("r{n}").into());
    let wait = Wait::Connected(Span::from_secs(600));
    Acquire { request_id, ..acquire(&format!("w{n}"), wait) }
}

fn is_granted(told: Option<Answered>, kind: GrantKind) -> bool {
    let Some(Ok(Told { reply: Reply::Applied(Ok(outcome)), undelivered })) = told else {
        return false;
    };
    undelivered.into_iter().for_each(|undelivered| undelivered.delivered());
    matches!(outcome, Outcome::Acquire(Acquired::Granted(grant)) if grant.kind == kind)
}

fn names(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|n| format!("w{n}")).collect()
}

const OFTEN: Duration = Duration::from_secs(1);
const NEVER: Duration = Duration::from_secs(1 << 30);

#[test]
fn a_leader_lapses_when_its_lease_has_passed_without_a_confirmation() {
    let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
    let lease = Some(Duration::from_secs(2));
    assert!(!has_lapsed(at(2_999), at(1_000), lease));
    assert!(has_lapsed(at(3_000), at(1_000), lease));
    assert!(!has_lapsed(at(900), at(1_000), lease), "it was confirmed since");
    assert!(!has_lapsed(at(90_000), at(0), None), "no other server can take over");
}

#[test]
fn waiters_keep_their_places_if_the_holder_expires_while_the_store_is_silent() {
    // Tests with and without a held record when the waits end.
    for tick in [OFTEN, NEVER] {
        let (mut leader, waiting) = Leader::waited_for(tick, usize::MAX, 4);
        leader.is_silent(20, |_| ());
        for waiting in waiting {
            assert!(matches!(waiting.told(), Some(Err(Error::Unknown))));
        }
        assert_eq!(leader.holders(), [""; 0]);
        assert_eq!(leader.queue(), (names(0..3), true));
        let second = leader.ask(repeatable(1));
        assert!(is_granted(second.told(), GrantKind::New), "the lock is free");
        let _first = leader.ask(repeatable(0));
        assert_eq!(leader.queue(), (vec!["w0".into(), "w2".into()], false));
    }
}

/// Releases the lock while the store is silent. The record that grants it to the first waiter is not known to be
/// durable.
fn released_in_silence() -> Result<Leader, String> {
    let (mut leader, waiting) = Leader::waited_for(OFTEN, usize::MAX, 4);
    leader.is_silent(5, |leader| {
        let target = Target::Lock(key());
        drop(leader.ask(Revoke { target, reason: "t".into() }));
    });
    for waiting in waiting {
        assert!(matches!(waiting.told(), Some(Err(Error::Unknown))));
    }
    match (leader.holders(), leader.queue()) {
        (holders, queue) if holders == ["w0"] && queue == (names(1..3), true) => Ok(leader),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn what_was_granted_in_silence_is_kept_for_a_client_that_returns() {
    let mut leader = released_in_silence().expect("it is kept");
    let again = leader.ask(repeatable(0));
    assert!(is_granted(again.told(), GrantKind::Replayed));
    leader.pass(STAY + 1);
    leader.round();
    assert_eq!(leader.holders(), ["w0"]);
}

#[test]
fn a_lease_granted_in_silence_is_released_if_its_client_does_not_return() {
    let mut leader = released_in_silence().expect("it is kept");
    leader.pass(STAY - 2);
    assert_eq!(leader.holders(), ["w0"]);
    leader.pass(3);
    leader.round();
    assert_eq!((leader.holders(), leader.queue().0), (vec![], vec![]));
}

#[test]
fn however_many_wait_no_record_is_too_long() {
    let (mut leader, waiting) = Leader::waited_for(OFTEN, 8192, 501);
    leader.is_silent(20, |_| ());
    assert_eq!(waiting.len(), 501);
    assert_eq!((leader.holders(), leader.queue()), (vec![], (names(0..500), true)));
}

/// Sends waits and reads after the leader has lapsed.
fn asked_in_silence(tick: Duration) -> Result<(), String> {
    let (mut leader, _waiting) = Leader::waited_for(tick, usize::MAX, 3);
    leader.is_mute.store(true, Relaxed);
    leader.pass(1);
    leader.pass(1);
    let late = repeatable(9);
    for _ in 0..3 {
        let told = leader.ask(late.clone()).told();
        if !matches!(told, Some(Err(Error::StoreSilent))) {
            return Err(format!("not refused: {told:?}"));
        }
    }
    if leader.queue().0.contains(&"w9".into()) {
        return Err("it had an effect".into());
    }
    leader.is_mute.store(false, Relaxed);
    // The first request after the store answers again is not refused.
    if tick == OFTEN {
        leader.round();
    }
    let again = leader.ask(late);
    leader.round();
    match again.told() {
        None if leader.queue().0.contains(&"w9".into()) => Ok(()),
        told => Err(format!("it does not wait: {told:?}")),
    }
}

#[test]
fn requests_after_the_leader_has_lapsed_are_refused_immediately() {
    // Tests with and without a held record.
    for tick in [OFTEN, NEVER] {
        asked_in_silence(tick).expect("refused, without an effect");
    }
}

#[test]
fn reads_that_wait_for_events_are_told_when_the_leader_has_lapsed() {
    let (mut leader, _waiting) = Leader::waited_for(OFTEN, usize::MAX, 3);
    let shared = leader.writer.shared.clone();
    let is_unsure = || {
        let mut context = Context::from_waker(Waker::noop());
        pin!(shared.unsure()).poll(&mut context).is_ready()
    };
    leader.is_mute.store(true, Relaxed);
    leader.pass(1);
    assert!(!is_unsure(), "its lease has not passed yet");
    leader.pass(1);
    assert!(is_unsure());
    leader.is_mute.store(false, Relaxed);
    leader.round();
    assert!(!is_unsure(), "the store answers again");
    drop(shared.follow());
    assert!(is_unsure(), "another server leads");
    shared.lead();
    assert!(!is_unsure());
}

#[test]
fn every_deliberate_bug_is_found() {
    if !mutant::IS_BUILT {
        return;
    }
    for bug in OF_SILENCE {
        mutant::switch(Some(bug));
        let outcome = match bug {
            Mutant::ForsakenGivenBack => released_in_silence().map(drop),
            Mutant::HeldWhileLapsed => [OFTEN, NEVER].into_iter().try_for_each(asked_in_silence),
            other => panic!("{other:?} has no scene"),
        };
        mutant::switch(None);
        assert!(outcome.is_err(), "{bug:?}");
    }
}
