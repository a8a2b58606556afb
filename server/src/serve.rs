//! Builds a running server from its settings, and stops it in order.

mod begin;
mod descriptors;
mod listening;
mod preflight;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leasehold_auth::{self as auth, Gate};
use leasehold_base::clock::{Clock, SystemClock};
use leasehold_core::RetryHint;
use leasehold_engine::{self as engine, AuditLog, Engine, EngineHandle};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::app::App;
use crate::audit::{self, Audit};
use crate::backup::{self, Backups};
use crate::cluster;
use crate::dialect::{self, Dialect};
use crate::door::Door;
use crate::host::Host;
use crate::http::places::Places;
use crate::http::tls::Tls;
use crate::http::worker::{Work, Workers};
use crate::http::{self, Listen, TlsFiles};
use crate::metrics::Metrics;
use crate::peer::{self, Peers};
use crate::reload;
use crate::trace::{self, Tracer};
use crate::webhook::{self, Webhook};
use begin::{Own, begin};
pub use descriptors::files_needed;
use leasehold_store as store;
use listening::{Listening, Use, certificate};
pub use listening::{Wanted, listeners};
pub use preflight::{Checked, Part, examine, preflight};

/// The interval between attempts to write audit files that could not be written.
const AUDIT_RETRY: Duration = Duration::from_secs(1);

/// Time limit for sending the last traces when the server stops.
const TRACES_MAX: Duration = Duration::from_secs(2);

/// The settings of a server.
pub struct Settings {
    /// The listen addresses, at least one. Port 0 stands for a free port.
    pub listen: Vec<Listen>,
    /// The listen address for `/metrics` and health checks, which need no authentication there.
    pub metrics_listen: Option<Listen>,
    /// The certificate of the TLS listeners.
    pub tls: Option<TlsFiles>,
    /// The data directory; `None` keeps the data in memory only.
    pub data: Option<PathBuf>,
    /// The cluster settings; `None` for a server with its own store. In a cluster, `data` contains only what this
    /// server remembers for itself, there are no backups, and dialects that store content are off.
    pub cluster: Option<cluster::Options>,
    /// The directory for files; `None` puts them into the data directory, or into a temporary directory if there is
    /// none.
    pub files: Option<PathBuf>,
    /// Settings of backups; `None` turns them off. Data in memory has no backups.
    pub backup: Option<backup::Options>,
    /// The interval at which the journal is folded into the tables.
    pub fold_interval: Duration,
    /// How much history is kept.
    pub history: store::history::Bounds,
    /// How much disk space is reserved, and how much must stay free.
    pub space: store::sqlite::Space,
    /// The enabled protocols.
    pub dialects: Vec<Dialect>,
    /// Settings of the engine.
    pub engine: engine::Options,
    /// Settings of connections.
    pub http: http::Options,
    /// Computes the `Retry-After` of refused requests.
    pub retry: RetryHint,
    /// Settings of the dialects.
    pub dialect: dialect::Options,
    /// The webhook for notes of leases that are held or waited for too long; `None` turns it off.
    pub webhook: Option<webhook::Options>,
    /// The auth file; `None` turns authentication off.
    pub auth_file: Option<PathBuf>,
    /// Limits of authentication: rates, and sizes of caches.
    pub auth: auth::Bounds,
    /// Settings of the audit files; `None` turns them off.
    pub audit: Option<audit::Options>,
    /// Settings of tracing; `None` turns it off.
    pub traces: Option<trace::Options>,
    /// Time limit for a graceful shutdown.
    pub shutdown_timeout: Duration,
}

/// Why a server could not start, or failed.
#[derive(Debug)]
pub enum Error {
    /// It could not listen at this address.
    Listen(String, std::io::Error),
    /// Its certificate or key is unusable.
    Tls(String),
    /// It could not start its threads.
    Threads(std::io::Error),
    /// The other servers of the cluster could not reach it.
    Cluster(String),
    /// It cannot store files.
    Files(std::io::Error),
    /// It cannot send webhook calls.
    Webhook(String),
    /// Its auth file is unusable.
    Auth(String),
    /// Its audit files are unusable.
    Audit(String),
    /// Its store failed.
    Store(store::Error),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Listen(address, error) => write!(f, "cannot listen on {address}: {error}"),
            Error::Files(error) => write!(f, "cannot store files: {error}"),
            Error::Webhook(why) => write!(f, "cannot use the webhook: {why}"),
            Error::Auth(why) | Error::Tls(why) | Error::Cluster(why) => f.write_str(why),
            Error::Threads(error) => write!(f, "cannot start threads: {error}"),
            Error::Audit(why) => write!(f, "cannot write the audit file: {why}"),
            Error::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

/// A running server.
pub struct Server {
    at: Listening,
    engine: Engine,
    handle: EngineHandle,
    accepting: JoinHandle<()>,
    stop: watch::Sender<bool>,
    /// The backups, and the task that takes them on schedule.
    backups: Option<(Arc<Backups>, Option<JoinHandle<()>>)>,
    beside: Beside,
    /// The task that reloads the auth and TLS files, and the bell that triggers a reload.
    reloading: Option<(JoinHandle<()>, Arc<Notify>)>,
    /// The audit files, and the task that retries failed writes.
    audit: Option<(Arc<Audit>, JoinHandle<()>)>,
}

/// Background tasks.
struct Beside {
    /// Tasks that end with the server: the webhook, and sampling for charts.
    tasks: Vec<JoinHandle<()>>,
    /// The task that sends traces, which sends the remaining ones at the end.
    traces: Option<JoinHandle<()>>,
}

impl Beside {
    /// Sends the remaining traces, within a time limit. All tracers are dropped by now.
    async fn finish(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        let Some(traces) = self.traces else { return };
        let abort = traces.abort_handle();
        if tokio::time::timeout(TRACES_MAX, traces).await.is_err() {
            abort.abort();
        }
    }
}

impl Server {
    /// Loads the store and starts to listen.
    pub async fn start(settings: Settings) -> Result<Self, Error> {
        Self::start_with(settings, Arc::new(SystemClock::new())).await
    }

    /// Starts a server that uses the given clock.
    pub async fn start_with(settings: Settings, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let auth = gate(&settings)?;
        let tls = certificate(&settings, &auth)?;
        // Only the server that has locked the data directory opens a port.
        let own = Own::take(&settings, &clock)?;
        let mut at = Listening::begin(&settings, &tls).await?;
        let reached = at.reached(&settings)?;
        let http = settings.http;
        let is_shared = settings.cluster.is_some();
        let dialects = spoken(&settings.dialects, is_shared);
        let keeps_content = keeps_content(&dialects);
        let data = settings.data.clone().filter(|_| !is_shared);
        // Each server reads past events from its own directory.
        let told = settings.data.clone();
        let files = files_folder(&settings.files, &data);
        let backups = backed_up(data.clone().zip(settings.backup), &clock);
        let audit = settings
            .audit
            .map(|options| Audit::open(options, dialect::NAMES))
            .transpose()
            .map_err(Error::Audit)?;
        let shared = told.clone().filter(|_| is_shared).map(|data| (data, settings.history));
        let engine_options = audited(settings.engine, &audit, &data, shared);
        let (metrics, limits) =
            (Arc::new(Metrics::new(dialect::NAMES)), engine_options.limits.clone());
        let (known, counted) = (clock.clone(), metrics.clone());
        let peers = reached.as_ref().map(|reached| Arc::new(Peers::new(reached)));
        let shared = settings.cluster.zip(reached);
        let tries = peers.clone();
        let (engine, handle, roster) = begin(shared, own, engine_options, known, counted).await?;
        let (tracer, traces) = traced(settings.traces, &metrics);
        let notes = hook(settings.webhook, &handle, clock, &metrics)?;
        let (retry, dialect) = (settings.retry, settings.dialect);
        let app = App::new(handle.clone(), metrics.clone(), http.clone(), retry, dialect, limits)
            .with_auth(auth.clone())
            .with_audit(audit.clone())
            .take_backups(backups.as_ref().map(|(backups, _)| backups.clone() as _))
            .tell_for(settings.history.age_max);
        let app = with_data(app, told.as_deref(), keeps_content.then_some(files.as_deref()))?;
        let host = Host::from(app).with_peers(peers, roster.clone()).with_tracer(tracer);
        let (stop, stopping) = watch::channel(false);
        let work = (0..http.n_workers()).map(|_| {
            let (host, mailbox) = host.for_thread();
            Work {
                engine: host.engine.clone(),
                handler: Door::new(host, &dialects),
                mailbox,
                options: http.clone(),
                metrics: metrics.clone(),
                stop: stopping.clone(),
                patience: settings.shutdown_timeout,
            }
        });
        let workers = Workers::start(work).map_err(Error::Threads)?;
        let places = Places::new(http, handle.health().clone(), &metrics);
        let listeners = std::mem::take(&mut at.listeners);
        let accepting = tokio::spawn(http::accept::serve(listeners, places, workers, stopping));
        let backups = backups.map(kept_up);
        let reloading = keep_up(auth, tls, &handle, metrics.clone(), audit.clone());
        let audit = audit.map(|audit| (audit.clone(), tokio::spawn(tend(audit, handle.clone()))));
        let samples = tokio::spawn(host.samples.clone().keep_up(metrics.clone()));
        let staleness = roster.as_ref().map(|_| tokio::spawn(handle.clone().check_staleness()));
        let roster = roster.map(|roster| tokio::spawn(roster.keep_up(metrics)));
        let tries = tries.map(|peers| tokio::spawn(peer::keep_trying(peers, &handle)));
        let of_cluster = roster.into_iter().chain(staleness).chain(tries);
        let tasks = notes.into_iter().chain(of_cluster).chain([samples]).collect();
        let beside = Beside { tasks, traces };
        Ok(Self { at, engine, handle, accepting, stop, backups, beside, reloading, audit })
    }

    /// The listen addresses, in the order of the settings.
    pub fn listeners(&self) -> &[Listen] {
        &self.at.http
    }

    /// The address of the metrics listener.
    pub fn metrics_listener(&self) -> Option<&Listen> {
        self.at.beside(Use::Metrics)
    }

    /// The address of the listener for the other servers of the cluster.
    pub fn peer_listener(&self) -> Option<&Listen> {
        self.at.beside(Use::Peers)
    }

    /// The first network address at which the server listens, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.at.http.iter().find_map(Listen::address)
    }

    /// The address of a dialect's dedicated listener, if it has one.
    pub fn listening(&self, dialect: Dialect) -> Option<SocketAddr> {
        self.at.beside(Use::Dialect(dialect)).and_then(Listen::address)
    }

    /// The engine, for code in the same process.
    pub fn engine(&self) -> &EngineHandle {
        &self.handle
    }

    /// Reloads the auth and TLS files immediately, and reopens the audit files.
    pub fn reload(&self) {
        self.reloader().notify_one();
        self.audit().inspect(|audit| audit.reopen());
    }

    /// The audit files; `None` if they are off.
    pub fn audit(&self) -> Option<Arc<Audit>> {
        self.audit.as_ref().map(|(audit, _)| audit.clone())
    }

    /// Returns the bell that triggers a reload.
    pub fn reloader(&self) -> Arc<Notify> {
        self.reloading.as_ref().map(|(_, now)| now.clone()).unwrap_or_default()
    }

    /// Runs until `signal` completes, then shuts down gracefully; or until it fails.
    pub async fn run_until(self, signal: impl Future<Output = ()>) -> Result<(), Error> {
        tokio::select! {
            () = signal => tracing::info!("stopping"),
            () = self.handle.stopped() => {}
        }
        self.stop().await
    }

    /// Shuts down: accepts no more connections, finishes the requests in progress, answers waiters, folds the journal.
    pub async fn stop(self) -> Result<(), Error> {
        if self.at.beside(Use::Peers).is_some() {
            // In a cluster, another server takes over. Clients that still connect here are sent to it for a moment.
            self.handle.stop();
            self.handle.stopped().await;
        }
        self.stop.send_replace(true);
        self.reloading.iter().for_each(|(reloading, _)| reloading.abort());
        self.audit.iter().for_each(|(_, trying)| trying.abort());
        self.handle.stop();
        // The panic of a task was reported already.
        let _ = self.accepting.await;
        drop(self.handle);
        self.beside.finish().await;
        let backups = self.backups.map(|(backups, keeping)| {
            keeping.inspect(JoinHandle::abort);
            backups
        });
        let end = move || {
            // A backup reads files that the engine closes at its end.
            backups.inspect(|backups| backups.finish());
            self.engine.join()
        };
        let joined = tokio::task::spawn_blocking(end).await;
        let unknown = |_| Err(store::Error::Unknown("the engine cannot be waited for".into()));
        joined.unwrap_or_else(unknown).map_err(Error::Store)
    }
}

/// Returns the dialects to enable. In a cluster, dialects that store content are off, because content would be on one
/// server only.
fn spoken(wanted: &[Dialect], is_shared: bool) -> Vec<Dialect> {
    let is_spoken = |dialect: &&Dialect| !is_shared || !dialect.keeps_content();
    wanted.iter().filter(is_spoken).copied().collect()
}

fn keeps_content(spoken: &[Dialect]) -> bool {
    spoken.iter().any(|dialect| dialect.keeps_content())
}

/// Returns the directory for files that outlast the server: the configured one, or one in the data directory.
fn files_folder(files: &Option<PathBuf>, data: &Option<PathBuf>) -> Option<PathBuf> {
    files.clone().or_else(|| Some(data.as_ref()?.join("files")))
}

/// Creates the backups and the task that takes them, if they are on.
fn backed_up(
    wanted: Option<(PathBuf, backup::Options)>,
    clock: &Arc<dyn Clock>,
) -> Option<(Arc<Backups>, Option<Duration>)> {
    let (data, options) = wanted?;
    let every = options.every;
    Some((Arc::new(Backups::new(data, options, clock.clone())), every))
}

/// Starts the webhook, if it is on.
fn hook(
    options: Option<webhook::Options>,
    engine: &EngineHandle,
    clock: Arc<dyn Clock>,
    metrics: &Arc<Metrics>,
) -> Result<Option<JoinHandle<()>>, Error> {
    let Some(options) = options else { return Ok(None) };
    let webhook = Webhook::new(options, engine, clock, metrics.clone()).map_err(Error::Webhook)?;
    Ok(Some(tokio::spawn(webhook.run())))
}

/// Starts tracing, if it is on.
fn traced(
    options: Option<trace::Options>,
    metrics: &Arc<Metrics>,
) -> (Option<Arc<Tracer>>, Option<JoinHandle<()>>) {
    let (tracer, sender) = options.map(|options| Tracer::new(options, metrics.clone())).unzip();
    (tracer, sender.map(|sender| tokio::spawn(sender.run())))
}

/// Creates the authentication service from the auth file, if there is one.
fn gate(settings: &Settings) -> Result<Arc<Gate>, Error> {
    match &settings.auth_file {
        Some(file) => Gate::load(file, settings.auth).map_err(Error::Auth),
        None => Ok(Gate::off()),
    }
}

/// Starts the task that reloads the auth and TLS files. Returns the bell that triggers a reload.
fn keep_up(
    auth: Arc<Gate>,
    tls: Option<Arc<Tls>>,
    handle: &EngineHandle,
    metrics: Arc<Metrics>,
    audit: Option<Arc<Audit>>,
) -> Option<(JoinHandle<()>, Arc<Notify>)> {
    let now = Arc::new(Notify::new());
    (auth.is_on() || tls.is_some()).then(|| {
        let watch = reload::keep_up(auth, tls, handle.clone(), metrics, now.clone(), audit);
        (tokio::spawn(watch), now)
    })
}

/// Adds the history in the data directory, and the content store if a dialect needs it.
fn with_data(app: App, data: Option<&Path>, files: Option<Option<&Path>>) -> Result<App, Error> {
    let app = match data {
        Some(data) => app.with_history(data),
        None => app,
    };
    // The store has locked the directory, so no other process uses it.
    match files {
        Some(folder) => app.keep_content(folder).map_err(Error::Files),
        None => Ok(app),
    }
}

/// Adds the audit files, if they are on, and a history if the store does not write one.
fn audited(
    options: engine::Options,
    audit: &Option<Arc<Audit>>,
    data: &Option<PathBuf>,
    history: Option<(PathBuf, store::history::Bounds)>,
) -> engine::Options {
    let audit = audit.clone().map(|audit| (audit as Arc<dyn AuditLog>, data.clone()));
    let history = history.map(|(data, bounds)| engine::HistoryOptions { data, bounds });
    engine::Options { audit, history, ..options }
}

/// Starts the task that takes backups on schedule.
fn kept_up(
    (backups, every): (Arc<Backups>, Option<Duration>),
) -> (Arc<Backups>, Option<JoinHandle<()>>) {
    let keeping = every.map(|every| tokio::spawn(backups.clone().keep_up(every)));
    (backups, keeping)
}

/// Retries audit files that cannot be written, indefinitely, and writes how many refusals were left out.
async fn tend(audit: Arc<Audit>, engine: EngineHandle) {
    loop {
        tokio::time::sleep(AUDIT_RETRY).await;
        audit.tend(engine.wall_ms());
    }
}
