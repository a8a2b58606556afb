//! Nodes on a real etcd. Between each node and etcd there is a link that tests can break in several ways.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use leasehold_base::clock::{Clock, SystemClock};
use leasehold_core::{Acquire, Dialect, Limits, LockKey, LockView, Owner, Secret, Span};
use leasehold_engine::{
    Ask, Engine, EngineHandle, Error, Granted, HistoryOptions, Options, ReadLock, Take,
};
use leasehold_etcd::{
    Error as EtcdError, Kind, LeaseGrantResponse, Options as EtcdOptions, RangeRequest,
    RangeResponse, StatusResponse, TxnRequest, TxnResponse,
};
use leasehold_server::audit::{self, Audit};
use leasehold_server::metrics::Metrics;
use leasehold_store::etcd::{self, Cluster, EtcdSeat, Remote, Snapshots, Watching};
use leasehold_store::{self as store, NodeFolder};
use leasehold_testkit::{Etcd, TempDir, folder};

pub(crate) const PREFIX: &str = "test";
const PATIENCE: Duration = Duration::from_secs(180);

/// An etcd cluster with a store in it.
pub(crate) struct World {
    pub(crate) etcd: Etcd,
    pub(crate) snapshots: Snapshots,
    pub(crate) compact_every: Duration,
    /// How the nodes monitor etcd's disk space. `None`: not at all.
    pub(crate) watching: Option<Watching>,
    /// Name of the node that only follows.
    pub(crate) never_leads: &'static str,
    /// How often a time record is written.
    pub(crate) tick: Duration,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::on(Etcd::start())
    }

    pub(crate) fn on(etcd: Etcd) -> Self {
        let (snapshots, compact_every) = (Snapshots::default(), Duration::from_secs(60));
        let world = Self {
            etcd,
            snapshots,
            compact_every,
            watching: None,
            never_leads: "",
            tick: Duration::from_secs(1),
        };
        etcd::init(&world.remote(), PREFIX).expect("a new store");
        world
    }

    pub(crate) fn remote(&self) -> Remote {
        etcd::connect(EtcdOptions::new(self.etcd.addresses()), PREFIX).expect("good options")
    }

    fn seat(
        &self,
        cluster: Arc<dyn Cluster>,
        name: &str,
        data: &Path,
        lead_without_memory: bool,
    ) -> Result<EtcdSeat, store::Error> {
        let usual = etcd::Options::new(name, &format!("http://{name}"), Limits::default());
        let Self { snapshots, compact_every, .. } = *self;
        let never_lead = name == self.never_leads;
        let options =
            etcd::Options { snapshots, compact_every, lead_without_memory, never_lead, ..usual };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let seat = EtcdSeat::new(cluster, PREFIX, options, NodeFolder::take(data)?, clock)?;
        match self.watching {
            Some(watching) => seat.watching_space(watching),
            None => Ok(seat),
        }
    }

    /// Starts a node with its own data directory.
    pub(crate) fn node(&self, name: &str) -> Node {
        Node::start(self, name, folder(), false).expect("a start")
    }
}

/// A node in this process.
pub(crate) struct Node {
    engine: Engine,
    pub(crate) handle: EngineHandle,
    pub(crate) link: Arc<Link>,
    pub(crate) folder: TempDir,
    pub(crate) metrics: Arc<Metrics>,
    runtime: tokio::runtime::Runtime,
}

impl Node {
    pub(crate) fn start(
        world: &World,
        name: &str,
        folder: TempDir,
        lead_without_memory: bool,
    ) -> Result<Self, store::Error> {
        let link = Arc::new(Link::new(world.remote()));
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
    pub(crate) fn ask<A: Ask>(&self, ask: A) -> Result<A::Answer, Error> {
        let call = self.handle.ask_unchecked(ask);
        let in_time = async { tokio::time::timeout(PATIENCE, call).await.expect("an answer") };
        self.runtime.block_on(in_time)
    }

    pub(crate) fn take(&self, lock: &str, owner: &str) -> Result<bool, Error> {
        self.ask(take(lock, owner, 60)).map(|taken| taken.map(Granted::deliver).is_ok())
    }

    pub(crate) fn look(&self, lock: &str) -> Result<LockView, Error> {
        let read = ReadLock { key: LockKey::new("default", lock), n_queue_max: 0 };
        self.ask(read).map(|found| *found.expect("a lock"))
    }

    pub(crate) fn holder(&self, lock: &str) -> Result<Option<String>, Error> {
        let view = self.look(lock)?;
        Ok(view.holders.first().map(|holder| holder.owner.instance.to_string()))
    }

    /// Waits until the node leads.
    pub(crate) fn leads(&self) {
        wait_until("it leads", || !self.handle.is_following());
    }

    pub(crate) fn follows(&self) {
        wait_until("it follows", || self.handle.is_following());
    }

    /// Stops the node gracefully. Returns its data directory.
    pub(crate) fn stop(self) -> TempDir {
        self.handle.stop();
        drop(self.handle);
        self.engine.join().expect("a good end");
        self.folder
    }
}

/// Returns an acquire without waiting, for `ttl_secs` seconds.
pub(crate) fn take(lock: &str, owner: &str, ttl_secs: u64) -> Take {
    let owner = Owner::new("anonymous", owner);
    let key = LockKey::new("default", lock);
    Take(Acquire {
        ttl: Some(Span::from_secs(ttl_secs)),
        ..Acquire::new(key, owner, Dialect(0), Secret([1; 16]))
    })
}

pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The link between a node and etcd.
pub(crate) struct Link {
    remote: Remote,
    /// No request reaches etcd.
    pub(crate) is_cut: AtomicBool,
    /// Number of further write transactions that reach etcd, but whose responses are lost.
    pub(crate) n_unanswered: AtomicUsize,
    /// Number of further write transactions that do not reach etcd.
    pub(crate) n_lost: AtomicUsize,
    /// No transaction reaches etcd, but etcd leases are kept alive.
    pub(crate) is_mute: AtomicBool,
}

impl Link {
    pub(crate) fn new(remote: Remote) -> Self {
        let (n_unanswered, n_lost) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let [is_cut, is_mute] = [false, false].map(AtomicBool::new);
        Self { remote, is_cut, n_unanswered, n_lost, is_mute }
    }

    fn pass(&self) -> Result<(), EtcdError> {
        if self.is_cut.load(SeqCst) {
            // About as long as a short request takes, so that the node does not spin.
            std::thread::sleep(Duration::from_millis(20));
            return Err(lost());
        }
        Ok(())
    }
}

fn lost() -> EtcdError {
    EtcdError::new(Kind::Unknown, "the link", "it is cut")
}

fn takes_one(count: &AtomicUsize) -> bool {
    count.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok()
}

impl Cluster for Link {
    fn range(&self, request: RangeRequest) -> Result<RangeResponse, EtcdError> {
        self.pass()?;
        self.remote.range(request)
    }

    fn txn(&self, request: TxnRequest) -> Result<TxnResponse, EtcdError> {
        self.pass()?;
        if self.is_mute.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(20));
            return Err(lost());
        }
        // Only writes count. Polls and confirmations are sent all the time.
        let writes = !request.compare.is_empty() && !request.success.is_empty();
        if writes && takes_one(&self.n_lost) {
            return Err(lost());
        }
        let answer = self.remote.txn(request);
        if writes && takes_one(&self.n_unanswered) { Err(lost()) } else { answer }
    }

    fn lease_grant(&self, ttl: i64) -> Result<LeaseGrantResponse, EtcdError> {
        self.pass()?;
        self.remote.lease_grant(ttl)
    }

    fn lease_keep_alive(&self, id: i64) -> Result<i64, EtcdError> {
        self.pass()?;
        self.remote.lease_keep_alive(id)
    }

    fn lease_revoke(&self, id: i64) -> Result<(), EtcdError> {
        self.pass()?;
        self.remote.lease_revoke(id)
    }

    fn compact(&self, revision: i64) -> Result<(), EtcdError> {
        self.pass()?;
        self.remote.compact(revision)
    }

    fn status(&self) -> Vec<Result<StatusResponse, EtcdError>> {
        self.remote.status()
    }

    fn endpoints(&self) -> Vec<String> {
        self.remote.endpoints()
    }

    fn n_members(&self) -> usize {
        self.remote.n_members()
    }

    fn wait(&self, patience: Duration) {
        self.remote.wait(patience);
    }
}
