//! etcd as a store sees it: calls that block, each of them one try.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use leasehold_base::runtime;
use leasehold_base::sync::{lock, whole};
use leasehold_etcd::{
    Client, Error, LeaseGrantResponse, Options, RangeRequest, RangeResponse, StatusResponse,
    TxnRequest, TxnResponse, WatchCreateRequest,
};
use tokio::runtime::{Builder, Runtime};

/// How long to wait before watching again what could not be watched.
const WATCH_PAUSE: Duration = Duration::from_millis(250);
/// Nobody has followed for so long: then nothing is watched. Whoever leads would be told of each record it writes.
const UNWANTED_AFTER: Duration = Duration::from_secs(1);

/// What a store asks of etcd. Every error means that it is not known what was done, unless its kind says more.
pub trait Cluster: Send + Sync {
    /// Reads keys.
    fn range(&self, request: RangeRequest) -> Result<RangeResponse, Error>;

    /// Does one of two lists of operations, depending on conditions.
    fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Error>;

    /// A lease for about so many seconds.
    fn lease_grant(&self, ttl: i64) -> Result<LeaseGrantResponse, Error>;

    /// Makes a lease last; for how many seconds from now.
    fn lease_keep_alive(&self, id: i64) -> Result<i64, Error>;

    /// Ends a lease, and with it its keys.
    fn lease_revoke(&self, id: i64) -> Result<(), Error>;

    /// Forgets what keys were before a revision.
    fn compact(&self, revision: i64) -> Result<(), Error>;

    /// How each member is.
    fn status(&self) -> Vec<Result<StatusResponse, Error>> {
        Vec::new()
    }

    /// Where each of them is, in the same order.
    fn endpoints(&self) -> Vec<String> {
        Vec::new()
    }

    /// How many members there are: so many tries reach each of them.
    fn n_members(&self) -> usize;

    /// Waits until one of the watched keys may have changed since this was last called, but no longer than this.
    /// Nobody may rely on it: a change may not be noticed.
    fn wait(&self, patience: Duration);
}

/// A real one. Its calls must not come from a thread that runs tokio's tasks.
pub struct Remote {
    client: Client,
    /// Only ever gone while this is dropped.
    runtime: Option<Runtime>,
    line: Mutex<Option<Line>>,
    nudge: Arc<Nudge>,
    endpoints: Vec<String>,
}

/// A connection that is served by whoever asks, while it asks: an append is on its way and back without any other
/// thread being woken. There is one, for one at a time; everybody else has the thread of the runtime serve theirs.
struct Line {
    client: Client,
    runtime: Runtime,
}

impl Remote {
    /// Reaches a cluster with these options, and watches these keys.
    pub fn connect(options: Options, watched: Vec<Vec<u8>>) -> Result<Self, String> {
        let mut builder = Builder::new_multi_thread();
        let runtime = runtime::bounded(builder.worker_threads(1).thread_name("etcd"))
            .map_err(|error| format!("cannot start a thread for etcd: {error}"))?;
        let client = {
            let _inside = runtime.enter();
            Client::new(options.clone()).map_err(|error| error.to_string())?
        };
        let endpoints = options.members.clone();
        let line = Line::new(&client, options)?;
        let nudge = Arc::new(Nudge::default());
        for key in watched {
            runtime.spawn(watch(client.clone(), key, nudge.clone()));
        }
        Ok(Self { client, runtime: Some(runtime), line: Mutex::new(Some(line)), nudge, endpoints })
    }

    fn block<T>(&self, asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match &self.runtime {
            Some(runtime) => runtime.block_on(asked),
            None => unreachable!("it is gone only while this is dropped"),
        }
    }
}

impl Line {
    fn new(beside: &Client, options: Options) -> Result<Self, String> {
        let runtime = runtime::on_this_thread();
        let runtime = runtime.map_err(|error| format!("cannot reach etcd: {error}"))?;
        let client = {
            let _inside = runtime.enter();
            beside.again(options).map_err(|error| error.to_string())?
        };
        Ok(Self { client, runtime })
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Waiting for it would not be possible everywhere.
        let line = lock(&self.line).take();
        line.map(|line| line.runtime.shutdown_background()).unwrap_or_default();
        self.runtime.take().map(Runtime::shutdown_background).unwrap_or_default();
    }
}

impl Cluster for Remote {
    fn range(&self, request: RangeRequest) -> Result<RangeResponse, Error> {
        self.block(self.client.range(request))
    }

    fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Error> {
        match self.line.try_lock().as_deref() {
            Ok(Some(Line { client, runtime })) => runtime.block_on(client.txn(request)),
            _ => self.block(self.client.txn(request)),
        }
    }

    fn lease_grant(&self, ttl: i64) -> Result<LeaseGrantResponse, Error> {
        self.block(self.client.lease_grant(ttl))
    }

    fn lease_keep_alive(&self, id: i64) -> Result<i64, Error> {
        self.block(self.client.lease_keep_alive(id))
    }

    fn lease_revoke(&self, id: i64) -> Result<(), Error> {
        self.block(self.client.lease_revoke(id)).map(drop)
    }

    fn compact(&self, revision: i64) -> Result<(), Error> {
        self.block(self.client.compact(revision)).map(drop)
    }

    fn status(&self) -> Vec<Result<StatusResponse, Error>> {
        self.block(async { Ok(self.client.status().await) }).unwrap_or_default()
    }

    fn endpoints(&self) -> Vec<String> {
        self.endpoints.clone()
    }

    fn n_members(&self) -> usize {
        self.client.n_members()
    }

    fn wait(&self, patience: Duration) {
        self.nudge.wait(patience);
    }
}

/// Rings whenever the key changes, and whenever that could not be seen for a while.
async fn watch(client: Client, key: Vec<u8>, nudge: Arc<Nudge>) {
    let create = WatchCreateRequest { key, fragment: true, ..WatchCreateRequest::default() };
    loop {
        if nudge.is_wanted()
            && let Ok(mut watch) = client.watch(create.clone()).await
        {
            nudge.ring();
            while nudge.is_wanted() && watch.next().await.is_ok() {
                nudge.ring();
            }
        }
        nudge.ring();
        tokio::time::sleep(WATCH_PAUSE).await;
    }
}

/// Wakes the one who follows.
#[derive(Default)]
struct Nudge {
    is_rung: Mutex<bool>,
    rung: Condvar,
    /// When somebody last began to wait for it.
    wanted_at: Mutex<Option<Instant>>,
}

impl Nudge {
    fn ring(&self) {
        *self.is_rung() = true;
        self.rung.notify_one();
    }

    fn wait(&self, patience: Duration) {
        *lock(&self.wanted_at) = Some(Instant::now());
        let waiting = self.rung.wait_timeout_while(self.is_rung(), patience, |is_rung| !*is_rung);
        *whole(waiting).0 = false;
    }

    /// Does anybody wait for it now and then?
    fn is_wanted(&self) -> bool {
        lock(&self.wanted_at).is_some_and(|at| at.elapsed() < UNWANTED_AFTER)
    }

    fn is_rung(&self) -> MutexGuard<'_, bool> {
        lock(&self.is_rung)
    }
}
