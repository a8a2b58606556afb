//! What scenes are played with: a store, nodes that take part by hand or by themselves, and wires between them.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use leasehold_core::{Acquire, Dialect, Limits, LockKey, Owner, Secret, Span};
use leasehold_etcd::Kind as Trouble;
use leasehold_server::clock::{FakeClock, Moment};
use leasehold_server::engine::{self, Call, Engine, EngineHandle, Options, ReadLock, Take};
use leasehold_server::metrics::Metrics;
use leasehold_server::store::etcd::{self, Cluster, EtcdSeat};
use leasehold_server::store::{Draft, Error, Kind, NodeFolder, Seat, Store};

use crate::etcd::{Answered, Client, Local, Request, Wire};
use crate::folder::Folder;

pub(super) const PREFIX: &str = "/scene/";
/// Nothing in a scene takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A store in etcd, with nobody in it yet.
pub(super) struct Stage {
    pub(super) local: Local,
}

/// A node that takes part by hand.
pub(super) struct Player {
    pub(super) seat: EtcdSeat,
    pub(super) clock: Arc<FakeClock>,
    pub(super) folder: Folder,
}

impl Stage {
    pub(super) fn new() -> Self {
        let stage = Self { local: Local::default() };
        etcd::init(&*stage.cluster(), PREFIX).expect("a new store");
        stage
    }

    pub(super) fn cluster(&self) -> Arc<dyn Cluster> {
        Arc::new(Client(self.local.clone()))
    }

    pub(super) fn seat(&self, name: &str, folder: &Folder, clock: Arc<FakeClock>) -> EtcdSeat {
        self.seat_over(self.cluster(), name, folder, clock)
    }

    pub(super) fn seat_over(
        &self,
        cluster: Arc<dyn Cluster>,
        name: &str,
        folder: &Folder,
        clock: Arc<FakeClock>,
    ) -> EtcdSeat {
        let options = etcd::Options::new(name, "http://localhost", Limits::default());
        let folder = NodeFolder::take(folder.path()).expect("a folder");
        EtcdSeat::new(cluster, PREFIX, options, folder, clock).expect("a seat")
    }

    /// A node that has read what there is.
    pub(super) fn player(&self, name: &str) -> Player {
        self.player_in(Folder::new(), name)
    }

    pub(super) fn player_in(&self, folder: Folder, name: &str) -> Player {
        let clock = Arc::<FakeClock>::default();
        let mut seat = self.seat(name, &folder, clock.clone());
        drop(seat.follow(Duration::ZERO).expect("a state"));
        Player { seat, clock, folder }
    }

    /// A node that plays by itself.
    pub(super) fn actor(&self, name: &str) -> Actor {
        self.actor_over(self.cluster(), name)
    }

    pub(super) fn actor_over(&self, cluster: Arc<dyn Cluster>, name: &str) -> Actor {
        let (folder, clock) = (Folder::new(), Arc::<FakeClock>::default());
        let seat = Box::new(self.seat_over(cluster, name, &folder, clock.clone()));
        let metrics = Arc::new(Metrics::new());
        let started = Engine::take_part(Options::default(), seat, clock.clone(), metrics);
        let (engine, handle) = started.expect("a start");
        Actor { engine: Some(engine), handle, clock, folder }
    }

    /// etcd ends every lease.
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

/// A server, which ends with this.
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
        let owner = Owner::new("anonymous", "a");
        let ttl = Some(ttl);
        let acquire =
            Acquire { ttl, ..Acquire::new(key(lock), owner, Dialect(0), Secret([1; 16])) };
        self.handle.ask_unchecked(Take(acquire))
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
            // How it ends is not what a scene is about.
            let _ = engine.join();
        }
    }
}

pub(super) fn key(lock: &str) -> LockKey {
    LockKey::new("default", lock)
}

pub(super) fn wait_until(is_so: impl Fn() -> bool) {
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

/// A wire whose answers can be held back after etcd has given them.
#[derive(Clone)]
pub(super) struct Slow {
    pub(super) local: Local,
    pub(super) is_slow: Arc<AtomicBool>,
    /// And then they are lost.
    pub(super) is_lossy: Arc<AtomicBool>,
    /// A confirmation is held back: a transaction that only compares.
    pub(super) has_confirmed: Arc<AtomicBool>,
}

impl Slow {
    pub(super) fn new(local: &Local) -> Self {
        let (is_slow, is_lossy, has_confirmed) = Default::default();
        Self { local: local.clone(), is_slow, is_lossy, has_confirmed }
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

/// A wire on which every answer takes five seconds.
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
