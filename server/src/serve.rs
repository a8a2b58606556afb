//! Putting it all together: from settings to a running server, and back to nothing in good order.

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

/// How often an audit file that cannot be written is tried again.
const AUDIT_RETRY: Duration = Duration::from_secs(1);

/// How long the last traces may take to be sent when the server stops.
const TRACES_MAX: Duration = Duration::from_secs(2);

/// Everything a server can be told.
pub struct Settings {
    /// Where to listen, at least once; port 0 takes any that is free.
    pub listen: Vec<Listen>,
    /// Where only `/metrics` and health checks are answered, to everybody.
    pub metrics_listen: Option<Listen>,
    /// What the server is known by on listeners with TLS.
    pub tls: Option<TlsFiles>,
    /// Where to keep the data; `None` keeps it in memory only.
    pub data: Option<PathBuf>,
    /// The store that several servers share; `None`: the data is this server's alone. With it `data` is only for what
    /// this server remembers by itself, there are no backups, and what keeps content is not spoken.
    pub cluster: Option<cluster::Options>,
    /// Where files are kept; `None` keeps them beside the data, or as long as the data.
    pub files: Option<PathBuf>,
    /// Where backups go and when; `None`: there are none. Data in memory has none.
    pub backup: Option<backup::Options>,
    /// How often the journal is folded into the tables.
    pub fold_interval: Duration,
    /// How much of what happened is kept.
    pub history: store::history::Bounds,
    /// How much disk space is set aside, and how much must be free.
    pub space: store::sqlite::Space,
    /// The protocols to speak.
    pub dialects: Vec<Dialect>,
    /// How the engine is run.
    pub engine: engine::Options,
    /// What connections may do.
    pub http: http::Options,
    /// When to tell a refused client to come back.
    pub retry: RetryHint,
    /// What the dialects are told.
    pub dialect: dialect::Options,
    /// Where notes of leases held or waiting too long are sent; `None`: nowhere.
    pub webhook: Option<webhook::Options>,
    /// Who may do what; `None`: nobody is asked who they are.
    pub auth_file: Option<PathBuf>,
    /// How much may be asked of whom, and how much is remembered.
    pub auth: auth::Bounds,
    /// Where it is written who did what; `None`: nowhere.
    pub audit: Option<audit::Options>,
    /// Where traces go; `None`: there are none.
    pub traces: Option<trace::Options>,
    /// How long stopping may take.
    pub shutdown_timeout: Duration,
}

/// Why a server ended badly, or did not begin.
#[derive(Debug)]
pub enum Error {
    /// It could not listen.
    Listen(String, std::io::Error),
    /// It has no certificate it could use.
    Tls(String),
    /// It could not start its threads.
    Threads(std::io::Error),
    /// It cannot be reached by the servers it shares its store with.
    Cluster(String),
    /// It cannot keep files.
    Files(std::io::Error),
    /// It cannot send notes.
    Webhook(String),
    /// It does not know who may do what.
    Auth(String),
    /// It cannot write down who did what.
    Audit(String),
    /// Its store could not go on.
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

/// A server that is running.
pub struct Server {
    at: Listening,
    engine: Engine,
    handle: EngineHandle,
    accepting: JoinHandle<()>,
    stop: watch::Sender<bool>,
    /// Its backups, and the task that takes them.
    backups: Option<(Arc<Backups>, Option<JoinHandle<()>>)>,
    beside: Beside,
    /// Looks at the auth file again, and again when told to.
    reloading: Option<(JoinHandle<()>, Arc<Notify>)>,
    /// Where it is written who did what, and the task that tries again.
    audit: Option<(Arc<Audit>, JoinHandle<()>)>,
}

/// What goes on beside it.
struct Beside {
    /// Tasks that end with it: sending notes, sampling what there is to do.
    tasks: Vec<JoinHandle<()>>,
    /// Sends traces, and what is left of them at the end.
    traces: Option<JoinHandle<()>>,
}

impl Beside {
    /// Sends what is left of traces, for a moment; whoever made them is gone.
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
    /// Loads the store and begins to listen.
    pub async fn start(settings: Settings) -> Result<Self, Error> {
        Self::start_with(settings, Arc::new(SystemClock::new())).await
    }

    /// The same, with a clock of the caller's.
    pub async fn start_with(settings: Settings, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let auth = gate(&settings)?;
        let tls = certificate(&settings, &auth)?;
        // Only the server that has locked the data folder opens a port.
        let own = Own::take(&settings, &clock)?;
        let mut at = Listening::begin(&settings, &tls).await?;
        let reached = at.reached(&settings)?;
        let http = settings.http;
        let is_shared = settings.cluster.is_some();
        let dialects = spoken(&settings.dialects, is_shared);
        let keeps_content = keeps_content(&dialects);
        let data = settings.data.clone().filter(|_| !is_shared);
        // What happened is told by each server from a folder of its own.
        let told = settings.data.clone();
        let files = files_folder(&settings.files, &data);
        let backups = backed_up(data.clone().zip(settings.backup), &clock);
        let audit = settings.audit.map(Audit::open).transpose().map_err(Error::Audit)?;
        let shared = told.clone().filter(|_| is_shared).map(|data| (data, settings.history));
        let engine_options = audited(settings.engine, &audit, &data, shared);
        let (metrics, limits) = (Arc::new(Metrics::new()), engine_options.limits.clone());
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
            .with_peers(peers, roster.clone())
            .with_tracer(tracer)
            .take_backups(backups.as_ref().map(|(backups, _)| backups.clone()))
            .tell_for(settings.history.age_max);
        let app = with_data(app, told.as_deref(), keeps_content.then_some(files.as_deref()))?;
        let (stop, stopping) = watch::channel(false);
        let work = (0..http.n_workers()).map(|_| {
            let (app, mailbox) = app.for_thread();
            Work {
                engine: app.engine.clone(),
                door: Door::new(app, &dialects),
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
        let samples = tokio::spawn(app.samples.clone().keep_up(metrics.clone()));
        let staleness = roster.as_ref().map(|_| tokio::spawn(handle.clone().check_staleness()));
        let roster = roster.map(|roster| tokio::spawn(roster.keep_up(metrics)));
        let tries = tries.map(|peers| tokio::spawn(peer::keep_trying(peers, &handle)));
        let of_cluster = roster.into_iter().chain(staleness).chain(tries);
        let tasks = notes.into_iter().chain(of_cluster).chain([samples]).collect();
        let beside = Beside { tasks, traces };
        Ok(Self { at, engine, handle, accepting, stop, backups, beside, reloading, audit })
    }

    /// Where it listens, in the order of the settings.
    pub fn listeners(&self) -> &[Listen] {
        &self.at.http
    }

    /// Where it answers only `/metrics` and health checks.
    pub fn metrics_listener(&self) -> Option<&Listen> {
        self.at.beside(Use::Metrics)
    }

    /// Where it listens for the other servers of a shared store.
    pub fn peer_listener(&self) -> Option<&Listen> {
        self.at.beside(Use::Peers)
    }

    /// The first place in the network where it listens, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.at.http.iter().find_map(Listen::address)
    }

    /// Where a dialect listens on its own, if it does.
    pub fn listening(&self, dialect: Dialect) -> Option<SocketAddr> {
        self.at.beside(Use::Dialect(dialect)).and_then(Listen::address)
    }

    /// The engine, for those in the same process.
    pub fn engine(&self) -> &EngineHandle {
        &self.handle
    }

    /// Looks at the auth file and the TLS files again at once, and opens the audit file anew.
    pub fn reload(&self) {
        self.reloader().notify_one();
        self.audit().inspect(|audit| audit.reopen());
    }

    /// Where it is written who did what, if anywhere.
    pub fn audit(&self) -> Option<Arc<Audit>> {
        self.audit.as_ref().map(|(audit, _)| audit.clone())
    }

    /// Whoever rings it has them looked at again.
    pub fn reloader(&self) -> Arc<Notify> {
        self.reloading.as_ref().map(|(_, now)| now.clone()).unwrap_or_default()
    }

    /// Runs until `signal` comes, then stops in good order; or until it cannot go on.
    pub async fn run_until(self, signal: impl Future<Output = ()>) -> Result<(), Error> {
        tokio::select! {
            () = signal => tracing::info!("stopping"),
            () = self.handle.stopped() => {}
        }
        self.stop().await
    }

    /// Accepts nothing more, finishes what was accepted, answers those who wait, folds, and ends.
    pub async fn stop(self) -> Result<(), Error> {
        if self.at.beside(Use::Peers).is_some() {
            // Others go on where this one ends. Whoever still comes here is sent there for a moment.
            self.handle.stop();
            self.handle.stopped().await;
        }
        self.stop.send_replace(true);
        self.reloading.iter().for_each(|(reloading, _)| reloading.abort());
        self.audit.iter().for_each(|(_, trying)| trying.abort());
        self.handle.stop();
        // A task that panicked has been told of already.
        let _ = self.accepting.await;
        drop(self.handle);
        self.beside.finish().await;
        let backups = self.backups.map(|(backups, keeping)| {
            keeping.inspect(JoinHandle::abort);
            backups
        });
        let end = move || {
            // It reads files that are closed by the end of the engine.
            backups.inspect(|backups| backups.finish());
            self.engine.join()
        };
        let joined = tokio::task::spawn_blocking(end).await;
        let unknown = |_| Err(store::Error::Unknown("the engine cannot be waited for".into()));
        joined.unwrap_or_else(unknown).map_err(Error::Store)
    }
}

/// The protocols that are spoken. Content would be on one server only, of several that share a store.
fn spoken(wanted: &[Dialect], is_shared: bool) -> Vec<Dialect> {
    let is_spoken = |dialect: &&Dialect| !is_shared || !dialect.keeps_content();
    wanted.iter().filter(is_spoken).copied().collect()
}

fn keeps_content(spoken: &[Dialect]) -> bool {
    spoken.iter().any(|dialect| dialect.keeps_content())
}

/// Where files are kept if they outlast the server: in a folder of their own, or beside the data.
fn files_folder(files: &Option<PathBuf>, data: &Option<PathBuf>) -> Option<PathBuf> {
    files.clone().or_else(|| Some(data.as_ref()?.join("files")))
}

/// Where backups go, and how often.
fn backed_up(
    wanted: Option<(PathBuf, backup::Options)>,
    clock: &Arc<dyn Clock>,
) -> Option<(Arc<Backups>, Option<Duration>)> {
    let (data, options) = wanted?;
    let every = options.every;
    Some((Arc::new(Backups::new(data, options, clock.clone())), every))
}

/// Has notes sent elsewhere, if they are to be.
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

/// Has traces made and sent, if they are to be.
fn traced(
    options: Option<trace::Options>,
    metrics: &Arc<Metrics>,
) -> (Option<Arc<Tracer>>, Option<JoinHandle<()>>) {
    let (tracer, sender) = options.map(|options| Tracer::new(options, metrics.clone())).unzip();
    (tracer, sender.map(|sender| tokio::spawn(sender.run())))
}

/// Whom to ask who they are, if anybody.
fn gate(settings: &Settings) -> Result<Arc<Gate>, Error> {
    match &settings.auth_file {
        Some(file) => Gate::load(file, settings.auth).map_err(Error::Auth),
        None => Ok(Gate::off()),
    }
}

/// Looks at the auth file and the TLS files from time to time, and whenever what comes back is rung.
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

/// Tells of what happened in a folder, and keeps files there or elsewhere, if any.
fn with_data(app: App, data: Option<&Path>, files: Option<Option<&Path>>) -> Result<App, Error> {
    let app = match data {
        Some(data) => app.with_history(data),
        None => app,
    };
    // The store has made sure that nobody else uses the folder.
    match files {
        Some(folder) => app.keep_content(folder).map_err(Error::Files),
        None => Ok(app),
    }
}

/// Writes down who did what, if there is somewhere to, and what happened if the store does not.
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

/// Has backups taken as often as that was asked for.
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
