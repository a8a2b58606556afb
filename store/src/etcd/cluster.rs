//! The interface of a store to etcd: blocking calls, each of which makes one attempt.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use leasehold_base::runtime;
use leasehold_base::sync::{lock, whole};
use leasehold_etcd::{
    Client, Error, LeaseGrantResponse, Options, RangeRequest, RangeResponse, StatusResponse,
    TxnRequest, TxnResponse, WatchCreateRequest,
};
use tokio::runtime::{Builder, Runtime};

/// How long to wait before a failed watch is repeated.
const WATCH_PAUSE: Duration = Duration::from_millis(250);
/// How long after the last wait the keys are still watched. A leader does not wait, so it does not watch: it would be
/// notified of each record that it writes itself.
const UNWANTED_AFTER: Duration = Duration::from_secs(1);

/// The operations of etcd that a store uses. After an error it is unknown whether the operation took effect, unless the
/// kind of the error excludes that.
pub trait Cluster: Send + Sync {
    /// Reads keys.
    fn range(&self, request: RangeRequest) -> Result<RangeResponse, Error>;

    /// Runs one of two lists of operations, depending on conditions.
    fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Error>;

    /// Grants a lease of about `ttl` seconds.
    fn lease_grant(&self, ttl: i64) -> Result<LeaseGrantResponse, Error>;

    /// Renews a lease. Returns its remaining seconds.
    fn lease_keep_alive(&self, id: i64) -> Result<i64, Error>;

    /// Revokes a lease, which deletes its keys.
    fn lease_revoke(&self, id: i64) -> Result<(), Error>;

    /// Compacts the history of all keys before a revision.
    fn compact(&self, revision: i64) -> Result<(), Error>;

    /// Returns the status of each member.
    fn status(&self) -> Vec<Result<StatusResponse, Error>> {
        Vec::new()
    }

    /// Returns the endpoint of each member, in the same order as [`Cluster::status`].
    fn endpoints(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the number of members. This many attempts reach each of them.
    fn n_members(&self) -> usize;

    /// Waits until a watched key might have changed since the last call, but at most for `patience`. Callers must not
    /// rely on it: a change can go unnoticed.
    fn wait(&self, patience: Duration);
}

/// A connection to a real etcd cluster. Its calls must not be made on a thread that runs tokio tasks.
pub struct Remote {
    client: Client,
    /// `None` only while this value is dropped.
    runtime: Option<Runtime>,
    line: Mutex<Option<Line>>,
    nudge: Arc<Nudge>,
    endpoints: Vec<String>,
}

/// A connection that is driven by the calling thread during a call, so that an append wakes no other thread. There is
/// one, for one call at a time. All other calls are driven by the thread of the runtime.
struct Line {
    client: Client,
    runtime: Runtime,
}

impl Remote {
    /// Connects to a cluster with these options, and watches these keys.
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
        // Does not wait for the runtimes to end, because blocking is not allowed in every context.
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

/// Rings whenever the key changes, and after every interruption of the watch.
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

/// Wakes the thread that follows the journal.
#[derive(Default)]
struct Nudge {
    is_rung: Mutex<bool>,
    rung: Condvar,
    /// When a thread last started to wait.
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

    /// Returns whether a thread waits from time to time.
    fn is_wanted(&self) -> bool {
        lock(&self.wanted_at).is_some_and(|at| at.elapsed() < UNWANTED_AFTER)
    }

    fn is_rung(&self) -> MutexGuard<'_, bool> {
        lock(&self.is_rung)
    }
}
