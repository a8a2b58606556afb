//! The state that all handlers share, and the routes that belong to no dialect.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get};
use axum::{Json, Router};
use leasehold_api::{Code, Failure};
use leasehold_auth::{Caller, Gate};
use leasehold_core::{LeaseNumber, Limits, LockKey, RetryHint};
use leasehold_engine::{
    Archive, AuditLog as _, CountNamespaces, EngineHandle, Mailbox, Mismatch, NamespaceCounts,
    Probe,
};

use crate::audit::{Act, Audit, Kind, Part};
use crate::backup::Backups;
use crate::cluster::roster::Roster;
use crate::console::{self, Notices, Samples};
use crate::content;
use crate::contract::{self, Health};
use crate::dialect::{self, Dialect, dav, files};
use crate::door::{self, Arrival};
use crate::http;
use crate::http::answers::Answers;
use crate::metrics::{Format, Metrics};
use crate::peer::{self, Peers, Relay};
use crate::trace::Tracer;

/// A leader counts as confirmed if etcd confirmed it within this time. It asks etcd every second.
const UNCONFIRMED_MAX: Duration = Duration::from_secs(2);
/// A follower counts as up to date if it had read all records within this time.
const BEHIND_MAX: Duration = Duration::from_secs(5);
/// Maximum time that `/metrics` waits for the counts per namespace, which only the engine knows.
const NAMESPACES_MAX: Duration = Duration::from_secs(1);

/// The state that all handlers share. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// The content of [`App`].
#[derive(Clone)]
pub struct Parts {
    /// The engine.
    pub engine: EngineHandle,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// Settings of connections.
    pub http: http::Options,
    /// Computes the `Retry-After` of refused requests.
    pub retry: RetryHint,
    /// The settings of the dialects.
    pub dialect: Arc<dialect::Options>,
    /// The limits of the machine.
    pub limits: Arc<Limits>,
    /// The backups; `None` if backups are off.
    pub backups: Option<Arc<Backups>>,
    /// The limits of long responses.
    pub answers: Arc<Answers>,
    /// Past events of locks.
    pub(crate) archive: Archive,
    /// Authentication and access control, which can be off.
    pub auth: Arc<Gate>,
    /// The audit files; `None` if they are off.
    pub(crate) audit: Option<Arc<Audit>>,
    /// Creates trace spans; `None` if tracing is off.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// The content store; `None` if no dialect stores content.
    pub(crate) content: Option<content::Store>,
    /// Forwards requests to the leader; `None` without a cluster.
    pub(crate) relay: Option<Arc<Relay>>,
    /// The servers of the cluster; `None` without a cluster.
    pub(crate) roster: Option<Arc<Roster>>,
    /// Samples of recent activity, for charts.
    pub(crate) samples: Arc<Samples>,
    /// Notices that the next page of a user shows once.
    pub(crate) notices: Arc<Notices>,
}

impl App {
    /// Creates the state of a server that stores no files.
    pub fn new(
        engine: EngineHandle,
        metrics: Arc<Metrics>,
        http: http::Options,
        retry: RetryHint,
        dialect: dialect::Options,
        limits: Limits,
    ) -> Self {
        let (dialect, limits) = (Arc::new(dialect), Arc::new(limits));
        let answers = Arc::new(Answers::new(&http, metrics.clone()));
        Self(Arc::new(Parts {
            engine,
            metrics,
            http,
            retry,
            dialect,
            limits,
            backups: None,
            answers,
            archive: Archive::default(),
            auth: Gate::off(),
            audit: None,
            tracer: None,
            content: None,
            relay: None,
            roster: None,
            samples: Arc::default(),
            notices: Arc::default(),
        }))
    }

    /// Sets authentication and access control.
    pub fn with_auth(self, auth: Arc<Gate>) -> Self {
        Self(Arc::new(Parts { auth, ..Parts::clone(&self) }))
    }

    /// Sets the audit files; `None` turns them off.
    pub fn with_audit(self, audit: Option<Arc<Audit>>) -> Self {
        Self(Arc::new(Parts { audit, ..Parts::clone(&self) }))
    }

    /// Sets the other servers of the cluster; `None` without a cluster.
    pub(crate) fn with_peers(self, peers: Option<Arc<Peers>>, roster: Option<Arc<Roster>>) -> Self {
        let relay = peers.map(|peers| Arc::new(Relay::new(peers)));
        Self(Arc::new(Parts { relay, roster, ..Parts::clone(&self) }))
    }

    /// Sets the tracer; `None` turns tracing off.
    pub(crate) fn with_tracer(self, tracer: Option<Arc<Tracer>>) -> Self {
        Self(Arc::new(Parts { tracer, ..Parts::clone(&self) }))
    }

    /// Writes an act of an operator to the audit files.
    pub(crate) fn note(&self, caller: &Caller, act: &'static str, more: impl FnOnce(Act) -> Act) {
        self.note_of(Kind::Admin, caller, act, more);
    }

    /// Writes to the audit files that a caller took something away. If it took leases of other principals
    /// (`is_from_others`), the line is kept like those about operators, as long as there are not too many of them.
    pub(crate) fn note_taken(
        &self,
        caller: &Caller,
        act: &'static str,
        is_from_others: bool,
        more: impl FnOnce(Act) -> Act,
    ) {
        let Some(audit) = self.audit.as_ref().filter(|_| is_from_others && caller.is_asked())
        else {
            return self.note(caller, act, more);
        };
        let act = claim_of(caller, more(Act::new(act, caller.by())));
        audit.took(&act, caller.is_operator(), self.engine.wall_ms());
    }

    /// Writes an act of any kind to the audit files. Acts that clients can repeat at will must not push out those of
    /// operators.
    pub(crate) fn note_of(
        &self,
        kind: Kind,
        caller: &Caller,
        act: &'static str,
        more: impl FnOnce(Act) -> Act,
    ) {
        let Some(audit) = &self.audit else { return };
        let part = match kind {
            Kind::Admin if caller.is_operator() || !caller.is_asked() => Part::Admin,
            Kind::Session if caller.is_operator() => Part::Admin,
            Kind::Admin | Kind::Session | Kind::Content => Part::Access,
        };
        let act = claim_of(caller, more(Act::of(kind, act, caller.by())));
        audit.acted(part, &act, self.engine.wall_ms());
    }

    /// Writes to the audit files that a request named an existing lease with a wrong proof.
    pub(crate) fn note_mismatch(
        &self,
        caller: &Caller,
        operation: &'static str,
        (lock, lease): (&LockKey, LeaseNumber),
    ) {
        let Some(audit) = &self.audit else { return };
        let mismatch = Mismatch { by: caller.by(), operation, lock: lock.clone(), lease: lease.0 };
        audit.mismatched(&mismatch, self.engine.wall_ms());
    }

    /// Sets the backups; `None` turns them off.
    pub fn take_backups(self, backups: Option<Arc<Backups>>) -> Self {
        Self(Arc::new(Parts { backups, ..Parts::clone(&self) }))
    }

    /// Also returns past events from the history in the directory `data`.
    pub fn with_history(self, data: &Path) -> Self {
        let archive = self.archive.clone().with_history(data);
        Self(Arc::new(Parts { archive, ..Parts::clone(&self) }))
    }

    /// Returns only events that are not older than this.
    pub(crate) fn tell_for(self, history_age_max: Duration) -> Self {
        let archive = self.archive.clone().with_age_max(history_age_max);
        Self(Arc::new(Parts { archive, ..Parts::clone(&self) }))
    }

    /// Stores content in `folder`, or with `None` in a temporary directory that is removed when the server stops.
    pub fn keep_content(self, folder: Option<&Path>) -> std::io::Result<Self> {
        let files::Options { quota, free_space_min, .. } = self.dialect.files;
        let quota = content::Quota { bytes_max: quota, free_min: free_space_min };
        let local = match folder {
            Some(folder) => content::Local::open(folder, quota)?,
            None => content::Local::temporary(quota)?,
        };
        let content =
            Some(content::Store::new(Arc::new(local), self.http.uploads_max, self.metrics.clone()));
        Ok(Self(Arc::new(Parts { content, ..Parts::clone(&self) })))
    }

    /// Clones the state for a worker thread, without reference counts shared between threads. The thread must run the
    /// mailbox.
    pub fn for_thread(&self) -> (Self, Mailbox) {
        let (engine, mailbox) = self.engine.with_mailbox();
        let relay = self.relay.as_ref().map(|relay| Arc::new(relay.another()));
        (Self(Arc::new(Parts { engine, relay, ..Parts::clone(self) })), mailbox)
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// Creates the routes of the server. The front end ([`Door`](crate::door::Door)) calls them.
pub(crate) fn router(app: App, dialects: &[Dialect]) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(healthz))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/leaderz", get(leaderz))
        .route("/metrics", get(metrics));
    // A dialect that is named twice counts once.
    let dialects: BTreeSet<_> = dialects.iter().copied().collect();
    router = router.merge(contract::routes(&app, &dialects)).merge(console::routes());
    let rest = dialects.contains(&Dialect::Files).then(|| files::rest(&app)).flatten();
    let is_dav = dialects.contains(&Dialect::Dav) && app.content.is_some();
    for dialect in dialects {
        router = router.merge(dialect.routes(&app));
    }
    let rest = rest.unwrap_or_else(|| any(nothing_at).with_state(app.clone()));
    let router = router.route("/", front(app.clone(), rest.clone(), is_dav)).fallback_service(rest);
    router
        .method_not_allowed_fallback(async || {
            failure(StatusCode::METHOD_NOT_ALLOWED, Code::MethodNotAllowed, door::NOT_ALLOWED)
        })
        .with_state(app)
}

/// Routes `/`: browsers get the console, other clients the service at that path, if there is one.
fn front(app: App, rest: MethodRouter, is_dav: bool) -> MethodRouter<App> {
    any(async move |request: Request| {
        let (method, headers) = (request.method(), request.headers());
        if is_dav && method == Method::OPTIONS {
            return dav::options();
        }
        if console::is_visit(method, request.uri().path(), headers) {
            return console::front(app.clone(), request).await;
        }
        let Ok(mut response) = tower::ServiceExt::oneshot(rest.clone(), request).await;
        response.headers_mut().append(header::VARY, HeaderValue::from_static("Accept"));
        response
    })
}

/// Answers unknown paths. If the path belongs to a dialect that is off, the message says so.
async fn nothing_at(State(app): State<App>, uri: Uri) -> Response {
    let dialect = crate::dialect::of_path(uri.path());
    let first = uri.path().split('/').nth(1).unwrap_or_default();
    let is_named = dialect.words().contains(&first);
    let why = match (dialect.keeps_content(), app.relay.is_some()) {
        (true, true) => {
            "it stores content, which would be on only one server of the cluster (--store)"
        }
        (true, false) if is_named => "--dialects does not name it",
        _ => return nothing_here().await,
    };
    // Any path without another meaning might be meant as the path of a file.
    let meant = if is_named { ":" } else { ". If a file was meant:" };
    let why = format!("no such path{meant} the dialect {dialect} is off: {why}");
    failure(StatusCode::NOT_FOUND, Code::NotFound, &why)
}

/// Answers unknown paths with 404.
pub(crate) async fn nothing_here() -> Response {
    failure(StatusCode::NOT_FOUND, Code::NotFound, "no such path")
}

pub(crate) fn failure(status: StatusCode, code: Code, why: &str) -> Response {
    (status, Json(Failure::new(code, why))).into_response()
}

async fn healthz() -> Response {
    Json(Health::OK).into_response()
}

/// Handles `/livez`: checks that the engine's loop is running.
async fn livez(State(app): State<App>) -> Response {
    verdict(app.engine.is_alive(), "the engine is stuck")
}

/// Handles `/leaderz`: checks that this server answers requests itself. Always succeeds without a cluster.
async fn leaderz(State(app): State<App>) -> Response {
    if app.relay.is_none() || app.engine.is_leading() && is_confirmed(&app) {
        return verdict(true, "");
    }
    let mut response = verdict(false, "this server is not the leader");
    let leader = app.engine.whereabouts().borrow().leader.clone();
    peer::tell_who_leads(leader.as_deref(), &mut response);
    response
}

/// Returns whether the store has confirmed recently that no other server has taken over.
fn is_confirmed(app: &App) -> bool {
    app.engine.unconfirmed_for() < UNCONFIRMED_MAX
}

/// Handles `/readyz`: checks that the store can commit, and will be able to for a while.
async fn readyz(State(app): State<App>, caller: Caller) -> Response {
    if let Some(relay) = app.relay.as_deref().filter(|_| !app.engine.is_stopping()) {
        return ready_among_others(&app, relay).await;
    }
    if app.engine.is_stopping() || app.engine.ask(caller.own(Probe)).await.is_err() {
        return verdict(false, "the server cannot commit writes now");
    }
    match app.engine.health().trouble() {
        Some(why) => verdict(false, &why),
        None => verdict(true, ""),
    }
}

/// Checks that a client of this cluster member is served, by this server or by forwarding to the leader.
async fn ready_among_others(app: &App, relay: &Relay) -> Response {
    if app.engine.health().pulse().is_drained() {
        return verdict(false, "this server is drained (leasehold cluster drain)");
    }
    if app.engine.is_leading() {
        return verdict(
            is_confirmed(app),
            "etcd does not confirm that this server is still the leader",
        );
    }
    if app.engine.behind_for().is_none_or(|behind| behind > BEHIND_MAX) {
        return verdict(false, "this follower has been behind the leader for 5 s");
    }
    let why = "this follower cannot reach a leader (if there is one, see this server's log)";
    verdict(relay.is_led(&app.engine).await, why)
}

fn verdict(is_well: bool, why_not: &str) -> Response {
    if is_well {
        return Json(Health::OK).into_response();
    }
    let mut response = failure(StatusCode::SERVICE_UNAVAILABLE, Code::Busy, why_not);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

async fn metrics(State(app): State<App>, caller: Caller, request: Request) -> Response {
    let (headers, arrival) = (request.headers(), request.extensions().get::<Arrival>());
    let is_asked = arrival.is_none_or(|arrival| !arrival.link.is_for_metrics);
    let shows_names = is_asked || app.http.metrics_listen_namespaces;
    app.metrics.engine.observe_health(app.engine.health(), app.engine.wall_ms());
    app.metrics.observe_notes(app.engine.n_notes());
    app.metrics.answers_bytes.set(app.answers.n_long_bytes() as i64);
    app.metrics.tasks.downloads.set(app.answers.n_downloads() as i64);
    app.metrics.tasks.tree_operations.set(app.answers.n_trees() as i64);
    app.metrics.event_streams.set(app.answers.n_streams() as i64);
    app.metrics.event_streams_bytes.set(app.engine.n_backlog_bytes() as i64);
    if let Some(audit) = &app.audit {
        app.metrics.observe_audit(audit.counts());
    }
    if let Some(content) = &app.content {
        app.metrics.files_bytes.set(content.n_bytes() as i64);
    }
    if let Some(backups) = &app.backups {
        app.metrics.observe_backups(backups.age(), backups.n_failures());
    }
    app.metrics.engine.known.observe_events(app.engine.n_kept_events());
    app.metrics.issuers.observe(app.auth.issuer_states(app.engine.now()));
    if let Some(sign_ins) = app.auth.sign_ins() {
        app.metrics.sign_ins.set(sign_ins.count() as i64);
    }
    let format = Format::wanted(headers);
    let counts = if shows_names { namespaces(&app, &caller).await } else { None };
    let text = app.metrics.show(format, counts.as_ref());
    let headers = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")];
    (headers, text).into_response()
}

/// Returns the counts per namespace, if the caller is allowed to see them and the engine responds in time. Otherwise
/// `/metrics` omits them, because metrics are needed most when the engine does not respond.
async fn namespaces(app: &App, caller: &Caller) -> Option<NamespaceCounts> {
    let n_max = app.http.metrics_namespaces_max;
    if n_max == 0 {
        return None;
    }
    let asked = caller.permit(CountNamespaces { n_max }).ok()?;
    tokio::time::timeout(NAMESPACES_MAX, app.engine.ask(asked)).await.ok()?.ok()
}

/// Adds the request id that the client claims.
fn claim_of(caller: &Caller, act: Act) -> Act {
    act.claimed("request_id", caller.trail().and_then(|trail| trail.request_id()))
}
