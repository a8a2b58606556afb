//! The servers of a cluster in this process, on any shared store. Between each server and the store there is a link
//! that tests can break in several ways. [`leadership`] has the tests that every shared store has to pass.

mod lapse;
pub mod leadership;
mod link;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_base::clock::{Clock, SystemClock};
use leasehold_core::{Acquire, Dialect, Limits, LockKey, LockView, Owner, Secret, Span};
use leasehold_engine::{
    Ask, Engine, EngineHandle, Error, Granted, HistoryOptions, Options, ReadLock, Take,
};
use leasehold_server::audit::{self, Audit};
use leasehold_server::metrics::Metrics;
use leasehold_store::memory_shared::MemoryShared;
use leasehold_store::shared::{self, Backend, Operator, SharedSeat, Snapshots, Watching};
use leasehold_store::status::Status;
use leasehold_store::{self as store, NodeFolder};

use crate::{TempDir, folder};
pub use link::Link;

/// How long a test waits before it gives up.
const PATIENCE: Duration = Duration::from_secs(180);

/// A shared store under test.
pub trait StoreUnderTest {
    /// Returns a new connection to the store.
    fn connect(&self) -> Arc<dyn Backend>;

    /// Copies the store. The returned function rolls the store back to the copy: what was written since is gone, and so
    /// are the leader and its leases.
    fn copy(&self) -> Box<dyn FnOnce() + '_>;
}

impl StoreUnderTest for MemoryShared {
    fn connect(&self) -> Arc<dyn Backend> {
        Arc::new(self.clone())
    }

    fn copy(&self) -> Box<dyn FnOnce() + '_> {
        let copy = MemoryShared::copy(self);
        Box::new(move || self.roll_back(copy))
    }
}

/// A store, and how its servers use it.
pub struct World {
    store: Box<dyn StoreUnderTest>,
    /// When snapshots are taken.
    pub snapshots: Snapshots,
    /// How often earlier values are removed from the store.
    pub compact_every: Duration,
    /// How the servers monitor the space that is left. `None`: not at all.
    pub watching: Option<Watching>,
    /// The name of the server that only follows.
    pub never_leads: &'static str,
    /// How often a time record is written.
    pub tick: Duration,
}

impl World {
    /// Creates a store without servers.
    pub fn on(store: impl StoreUnderTest + 'static) -> Self {
        let world = Self {
            store: Box::new(store),
            snapshots: Snapshots::default(),
            compact_every: Duration::from_secs(60),
            watching: None,
            never_leads: "",
            tick: Duration::from_secs(1),
        };
        shared::init(&*world.connect()).expect("a new store");
        world
    }

    /// Creates a store in the memory of this process.
    pub fn in_memory() -> Self {
        Self::on(MemoryShared::new())
    }

    /// Returns a new connection to the store.
    pub fn connect(&self) -> Arc<dyn Backend> {
        self.store.connect()
    }

    /// See [`StoreUnderTest::copy`].
    pub fn copy(&self) -> Box<dyn FnOnce() + '_> {
        self.store.copy()
    }

    /// Acts as an operator.
    pub fn operate<T>(
        &self,
        work: impl FnOnce(&Operator) -> Result<T, store::Error>,
    ) -> Result<T, store::Error> {
        work(&Operator::new(self.connect()))
    }

    /// Reads the status of the cluster.
    pub fn status(&self) -> Status {
        self.operate(Operator::status).expect("a status")
    }

    /// Returns the name of the leader.
    pub fn leader(&self) -> Option<String> {
        self.status().leader.map(|leader| leader.node)
    }

    /// Returns the number of journal records in the store.
    pub fn n_records(&self) -> u64 {
        self.connect().census("").expect("it answers").n_records
    }

    fn seat(
        &self,
        backend: Arc<dyn Backend>,
        name: &str,
        data: &Path,
        lead_without_memory: bool,
    ) -> Result<SharedSeat, store::Error> {
        let usual = shared::Options::new(name, &format!("http://{name}"), Limits::default());
        let Self { snapshots, compact_every, .. } = *self;
        let never_lead = name == self.never_leads;
        let options =
            shared::Options { snapshots, compact_every, lead_without_memory, never_lead, ..usual };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let seat = SharedSeat::new(backend, options, NodeFolder::take(data)?, clock)?;
        match self.watching {
            Some(watching) => seat.watching_space(watching),
            None => Ok(seat),
        }
    }

    /// Starts a server with its own data directory.
    pub fn node(&self, name: &str) -> Node {
        Node::start(self, name, folder(), false).expect("a start")
    }

    /// Starts two servers, of which the first leads, and acquires a lock.
    pub fn pair(&self) -> (Node, Node) {
        let first = self.node("n1");
        first.leads();
        let second = self.node("n2");
        assert!(first.take("db", "a").expect("an answer"));
        (first, second)
    }
}

/// A server in this process.
pub struct Node {
    engine: Engine,
    /// Its engine.
    pub handle: EngineHandle,
    /// Its connection to the store.
    pub link: Arc<Link>,
    /// Its data directory.
    pub folder: TempDir,
    /// Its metrics.
    pub metrics: Arc<Metrics>,
    runtime: tokio::runtime::Runtime,
}

impl Node {
    /// Starts a server in this data directory.
    pub fn start(
        world: &World,
        name: &str,
        folder: TempDir,
        lead_without_memory: bool,
    ) -> Result<Self, store::Error> {
        let link = Arc::new(Link::new(world.connect()));
        let seat = world.seat(link.clone(), name, folder.path(), lead_without_memory)?;
        let clock = Arc::new(SystemClock::new());
        let metrics = Arc::new(Metrics::new(leasehold_server::dialect::NAMES));
        let data = folder.path();
        let bounds = store::history::Bounds::default();
        let options = Options {
            history: Some(HistoryOptions { data: data.into(), bounds }),
            audit: Some((
                Audit::open(
                    audit::Options::new(data.join("audit")),
                    leasehold_server::dialect::NAMES,
                )
                .expect("a file"),
                None,
            )),
            tick: world.tick,
            ..Options::default()
        };
        let (engine, handle) =
            Engine::take_part(options, Box::new(seat), clock, metrics.engine.clone())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        Ok(Self { engine, handle, link, folder, metrics, runtime })
    }

    /// Sends a request to the engine and waits for the answer.
    pub fn ask<A: Ask>(&self, ask: A) -> Result<A::Answer, Error> {
        let call = self.handle.ask_unchecked(ask);
        let in_time = async { tokio::time::timeout(PATIENCE, call).await.expect("an answer") };
        self.runtime.block_on(in_time)
    }

    /// Acquires a lock for a minute. Returns whether it was granted.
    pub fn take(&self, lock: &str, owner: &str) -> Result<bool, Error> {
        self.ask(take(lock, owner, 60)).map(|taken| taken.map(Granted::deliver).is_ok())
    }

    /// Reads a lock.
    pub fn look(&self, lock: &str) -> Result<LockView, Error> {
        let read = ReadLock { key: LockKey::new("default", lock), n_queue_max: 0 };
        self.ask(read).map(|found| *found.expect("a lock"))
    }

    /// Returns the owner of a lock.
    pub fn holder(&self, lock: &str) -> Result<Option<String>, Error> {
        let view = self.look(lock)?;
        Ok(view.holders.first().map(|holder| holder.owner.instance.to_string()))
    }

    /// Waits until the server leads.
    pub fn leads(&self) {
        wait_until("it leads", || !self.handle.is_following());
    }

    /// Waits until the server follows.
    pub fn follows(&self) {
        wait_until("it follows", || self.handle.is_following());
    }

    /// Returns the number of the last record that the server has noted in `node.json`.
    pub fn remembers(&self) -> u64 {
        let noted = std::fs::read_to_string(self.folder.path().join("node.json"));
        let text = noted.unwrap_or_default();
        let number = text.split("\"seq\":").nth(1).and_then(|rest| rest.split(',').next());
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// Stops the server gracefully. Returns its data directory.
    pub fn stop(self) -> TempDir {
        self.handle.stop();
        drop(self.handle);
        self.engine.join().expect("a good end");
        self.folder
    }
}

/// Returns an acquire without waiting, for `ttl_secs` seconds.
pub fn take(lock: &str, owner: &str, ttl_secs: u64) -> Take {
    let owner = Owner::new("anonymous", owner);
    let key = LockKey::new("default", lock);
    Take(Acquire {
        ttl: Some(Span::from_secs(ttl_secs)),
        ..Acquire::new(key, owner, Dialect(0), Secret([1; 16]))
    })
}

/// Waits until a condition holds.
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
