//! Helpers for scenes: a store, nodes that are controlled step by step or run on their own, and connections between
//! them.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use leasehold_base::clock::{FakeClock, Moment};
use leasehold_core::{Acquire, Dialect, Limits, LockKey, Owner, Secret, Span};
use leasehold_engine::{self as engine, Call, Engine, EngineHandle, Options, ReadLock, Take};
use leasehold_etcd::Kind as Trouble;
use leasehold_server::metrics::Metrics;
use leasehold_store::etcd::{Cluster, EtcdBackend};
use leasehold_store::shared::{self, Backend, SharedSeat, Snapshots};
use leasehold_store::{Draft, Error, Kind, NodeFolder, Seat, Store};

use crate::etcd::{Answered, Client, Local, Request, Wire};
use crate::folder::Folder;

pub(super) const PREFIX: &str = "/scene/";
/// The time limit of every wait in a scene.
const PATIENCE: Duration = Duration::from_secs(120);

/// A snapshot is due after three records.
pub(super) const OFTEN: Snapshots = Snapshots::every(3);

/// A store in etcd, without any nodes at first.
pub(super) struct Stage {
    pub(super) local: Local,
    /// When leaders take snapshots.
    pub(super) snapshots: Snapshots,
}

/// A node that the scene controls step by step.
pub(super) struct Player {
    pub(super) seat: SharedSeat,
    pub(super) clock: Arc<FakeClock>,
    pub(super) folder: Folder,
}

impl Stage {
    pub(super) fn new() -> Self {
        let stage = Self { local: Local::default(), snapshots: Snapshots::default() };
        shared::init(&*stage.backend()).expect("a new store");
        stage
    }

    pub(super) fn cluster(&self) -> Arc<dyn Cluster> {
        Arc::new(Client(self.local.clone()))
    }

    pub(super) fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(EtcdBackend::new(self.cluster(), PREFIX))
    }

    pub(super) fn seat_over(
        &self,
        cluster: Arc<dyn Cluster>,
        name: &str,
        folder: &Folder,
        clock: Arc<FakeClock>,
    ) -> SharedSeat {
        let usual = shared::Options::new(name, "http://localhost", Limits::default());
        let options = shared::Options { snapshots: self.snapshots, ..usual };
        let folder = NodeFolder::take(folder.path()).expect("a folder");
        let backend = Arc::new(EtcdBackend::new(cluster, PREFIX));
        SharedSeat::new(backend, options, folder, clock).expect("a seat")
    }

    /// Returns a node that has read the store.
    pub(super) fn player(&self, name: &str) -> Player {
        self.player_in(Folder::new(), name)
    }

    pub(super) fn player_in(&self, folder: Folder, name: &str) -> Player {
        self.player_over(self.cluster(), folder, name)
    }

    pub(super) fn player_over(
        &self,
        cluster: Arc<dyn Cluster>,
        folder: Folder,
        name: &str,
    ) -> Player {
        let clock = Arc::<FakeClock>::default();
        let mut seat = self.seat_over(cluster, name, &folder, clock.clone());
        drop(seat.follow(Duration::ZERO).expect("a state"));
        Player { seat, clock, folder }
    }

    /// Returns a node that runs on its own.
    pub(super) fn actor(&self, name: &str) -> Actor {
        self.actor_over(self.cluster(), name)
    }

    pub(super) fn actor_over(&self, cluster: Arc<dyn Cluster>, name: &str) -> Actor {
        let (folder, clock) = (Folder::new(), Arc::<FakeClock>::default());
        let seat = Box::new(self.seat_over(cluster, name, &folder, clock.clone()));
        let metrics = Arc::new(Metrics::new(leasehold_server::dialect::NAMES));
        let started =
            Engine::take_part(Options::default(), seat, clock.clone(), metrics.engine.clone());
        let (engine, handle) = started.expect("a start");
        Actor { engine: Some(engine), handle, clock, folder }
    }

    /// Returns a leader, whose connection can be slowed down, and a follower that may lead.
    pub(super) fn pair(&self) -> (Actor, Actor, Slow) {
        let slow = Slow::new(&self.local);
        let first = self.actor_over(Arc::new(Client(slow.clone())), "n1");
        first.leads();
        let second = self.actor("n2");
        // A node that has seen another leader may lead, and it stores what it has seen once a second.
        for n in 0..100 {
            if second.folder.remembers() >= Some(2) {
                break;
            }
            let other = wait_for(first.take(&format!("other-{n}"), Span::from_secs(3600)));
            drop(other.expect("an answer").expect("a grant").deliver());
            std::thread::sleep(Duration::from_millis(50));
        }
        (first, second, slow)
    }

    /// Cuts the first node of a pair off from etcd's responses, and makes the second one the leader.
    pub(super) fn hands_over(&self, slow: &Slow, second: &Actor) {
        slow.is_slow.store(true, SeqCst);
        self.revoke();
        second.leads();
    }

    /// Writes enough records to make a snapshot due ([`OFTEN`]), and waits until it is taken.
    pub(super) fn takes_snapshot(&self, store: &mut dyn Store) {
        let before = self.value("manifest");
        (0..OFTEN.records_max).for_each(|_| append(store).expect("it leads"));
        wait_until(|| self.value("manifest") != before);
    }

    /// Returns the value of a key.
    pub(super) fn value(&self, key: &str) -> Option<Vec<u8>> {
        let local = self.local.lock();
        local.0.get(format!("{PREFIX}{key}").as_bytes()).map(|found| found.value.clone())
    }

    pub(super) fn revoke(&self) {
        let mut local = self.local.lock();
        for id in local.0.lease_ids() {
            local.0.revoke(id);
        }
    }
}

impl Player {
    pub(super) fn lead(&mut self) -> Box<dyn Store> {
        let taken = self.seat.take().expect("an answer").expect("the seat is vacant");
        taken.0
    }
}

/// A server, which is stopped when this value is dropped.
pub(super) struct Actor {
    pub(super) engine: Option<Engine>,
    pub(super) handle: EngineHandle,
    pub(super) clock: Arc<FakeClock>,
    pub(super) folder: Folder,
}

impl Actor {
    pub(super) fn leads(&self) {
        wait_until(|| !self.handle.is_following());
    }

    pub(super) fn take(&self, lock: &str, ttl: Span) -> Call<Take> {
        self.handle.ask_unchecked(Take(Acquire { ttl: Some(ttl), ..acquire(lock, "a") }))
    }

    /// Acquires a free lock for another owner.
    pub(super) fn gives(&self, lock: &str, owner: &str) -> Result<(), String> {
        match wait_for(self.handle.ask_unchecked(Take(acquire(lock, owner)))) {
            Ok(Ok(granted)) => {
                drop(granted.deliver());
                Ok(())
            }
            Ok(Err(why)) => Err(format!("{owner} is refused: {why:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(super) fn look(&self, lock: &str) -> Call<ReadLock> {
        self.handle.ask_unchecked(ReadLock { key: key(lock), n_queue_max: 0 })
    }

    pub(super) fn is_held(&self, lock: &str) -> Result<bool, engine::Error> {
        Self::seen(self.look(lock))
    }

    pub(super) fn seen(call: Call<ReadLock>) -> Result<bool, engine::Error> {
        wait_for(call).map(|found| !found.expect("a lock").holders.is_empty())
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(engine) = self.engine.take() {
            // The result of the engine does not matter to a scene.
            let _ = engine.join();
        }
    }
}

/// Returns an acquire for this lock and owner.
pub(super) fn acquire(lock: &str, owner: &str) -> Acquire {
    Acquire::new(key(lock), Owner::new("anonymous", owner), Dialect(0), Secret([1; 16]))
}

pub(super) fn key(lock: &str) -> LockKey {
    LockKey::new("default", lock)
}

pub(super) fn wait_until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "not in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(super) fn wait_for<T>(call: impl Future<Output = T>) -> T {
    let mut call = pin!(call);
    let mut context = Context::from_waker(Waker::noop());
    let began = Instant::now();
    loop {
        if let Poll::Ready(answer) = call.as_mut().poll(&mut context) {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "not in time");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(super) fn tick() -> Draft<'static> {
    Draft { kind: Kind::Tick, moment: Moment::default(), changes: &[] }
}

pub(super) fn append(store: &mut dyn Store) -> Result<(), Error> {
    let permit = store.reserve()?;
    store.append(permit, tick())
}

pub(super) fn is_fenced(answer: &Result<(), Error>, what: &str) -> Result<(), String> {
    match answer {
        Err(Error::Fenced(_)) => Ok(()),
        other => Err(format!("{what} came to {other:?}")),
    }
}

/// A connection on which etcd's responses can be held back.
#[derive(Clone)]
pub(super) struct Slow {
    pub(super) local: Local,
    pub(super) is_slow: Arc<AtomicBool>,
    /// Held responses are lost.
    pub(super) is_lossy: Arc<AtomicBool>,
    /// The number of lost responses.
    pub(super) n_lost: Arc<AtomicUsize>,
    /// The response to a confirmation is held back. A confirmation is a transaction that only compares.
    pub(super) has_confirmed: Arc<AtomicBool>,
}

impl Slow {
    pub(super) fn new(local: &Local) -> Self {
        let (is_slow, is_lossy, n_lost, has_confirmed) = Default::default();
        Self { local: local.clone(), is_slow, is_lossy, n_lost, has_confirmed }
    }
}

impl Wire for Slow {
    fn ask(&self, request: Request) -> Answered {
        let is_confirm = matches!(&request, Request::Txn(txn) if txn.success.is_empty());
        let answered = self.local.ask(request);
        while self.is_slow.load(SeqCst) {
            self.has_confirmed.fetch_or(is_confirm, SeqCst);
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.is_lossy.load(SeqCst) {
            self.n_lost.fetch_add(1, SeqCst);
            return Err(leasehold_etcd::Error::new(Trouble::Unknown, "simulated", "no answer"));
        }
        answered
    }

    fn n_members(&self) -> usize {
        self.local.n_members()
    }

    fn wait(&self, patience: Duration) {
        self.local.wait(patience);
    }
}

/// A connection on which only a limited number of further requests arrive.
#[derive(Clone)]
pub(super) struct Failing {
    local: Local,
    pub(super) n_left: Arc<AtomicUsize>,
}

impl Failing {
    pub(super) fn new(local: &Local) -> Self {
        Self { local: local.clone(), n_left: Arc::new(usize::MAX.into()) }
    }
}

impl Wire for Failing {
    fn ask(&self, request: Request) -> Answered {
        match self.n_left.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)) {
            Ok(_) => self.local.ask(request),
            Err(_) => Err(leasehold_etcd::Error::new(Trouble::Unknown, "simulated", "it is cut")),
        }
    }

    fn n_members(&self) -> usize {
        self.local.n_members()
    }

    fn wait(&self, patience: Duration) {
        self.local.wait(patience);
    }
}

/// A connection on which every response takes five seconds.
pub(super) struct Passing {
    pub(super) local: Local,
    pub(super) clock: Arc<FakeClock>,
}

impl Wire for Passing {
    fn ask(&self, request: Request) -> Answered {
        self.clock.advance(Span::from_secs(5));
        self.local.ask(request)
    }

    fn n_members(&self) -> usize {
        self.local.n_members()
    }

    fn wait(&self, patience: Duration) {
        self.local.wait(patience);
    }
}

/// A connection on which some requests are held back before they reach etcd.
#[derive(Clone)]
pub(super) struct Gate {
    local: Local,
    is_held: fn(&Request) -> bool,
    /// A request is being held back.
    pub(super) has_come: Arc<AtomicBool>,
    pub(super) is_open: Arc<AtomicBool>,
}

impl Gate {
    pub(super) fn new(local: &Local, is_held: fn(&Request) -> bool) -> Self {
        let (has_come, is_open) = Default::default();
        Self { local: local.clone(), is_held, has_come, is_open }
    }
}

impl Wire for Gate {
    fn ask(&self, request: Request) -> Answered {
        if (self.is_held)(&request) {
            self.has_come.store(true, SeqCst);
            wait_until(|| self.is_open.load(SeqCst));
        }
        self.local.ask(request)
    }

    fn n_members(&self) -> usize {
        self.local.n_members()
    }

    fn wait(&self, patience: Duration) {
        self.local.wait(patience);
    }
}
