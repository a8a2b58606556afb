//! What every handler can reach, and the routes that belong to no dialect.

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

/// The leader asks the store every second whether it still leads. The last confirmation can be this old.
const UNCONFIRMED_MAX: Duration = Duration::from_secs(2);
/// So long ago one that follows may have read everything there was.
const BEHIND_MAX: Duration = Duration::from_secs(5);
/// Metrics do not wait longer than this for what only the engine knows.
const NAMESPACES_MAX: Duration = Duration::from_secs(1);

/// Shared by all handlers. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// What they share.
#[derive(Clone)]
pub struct Parts {
    /// The engine.
    pub engine: EngineHandle,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What connections may do.
    pub http: http::Options,
    /// When to tell a refused client to come back.
    pub retry: RetryHint,
    /// What the dialects were told.
    pub dialect: Arc<dialect::Options>,
    /// What the machine allows.
    pub limits: Arc<Limits>,
    /// Its backups, if it takes any.
    pub backups: Option<Arc<Backups>>,
    /// How much is being answered.
    pub answers: Arc<Answers>,
    /// Past events.
    pub(crate) archive: Archive,
    /// Whether anybody is asked who they are, and what they may.
    pub auth: Arc<Gate>,
    /// Where it is written who did what, if anywhere.
    pub(crate) audit: Option<Arc<Audit>>,
    /// Makes traces, if there are any.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// Where content is kept, if anywhere.
    pub(crate) content: Option<content::Store>,
    /// The other servers of a shared store, if there are any.
    pub(crate) relay: Option<Arc<Relay>>,
    /// Who they are.
    pub(crate) roster: Option<Arc<Roster>>,
    /// What there was to do lately.
    pub(crate) samples: Arc<Samples>,
    /// What the next page of somebody says.
    pub(crate) notices: Arc<Notices>,
}

impl App {
    /// One that keeps no files.
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

    /// Asks who somebody is, or does not.
    pub fn with_auth(self, auth: Arc<Gate>) -> Self {
        Self(Arc::new(Parts { auth, ..Parts::clone(&self) }))
    }

    /// Writes down who did what, if there is somewhere to.
    pub fn with_audit(self, audit: Option<Arc<Audit>>) -> Self {
        Self(Arc::new(Parts { audit, ..Parts::clone(&self) }))
    }

    /// Shares its store with other servers, if there are any.
    pub(crate) fn with_peers(self, peers: Option<Arc<Peers>>, roster: Option<Arc<Roster>>) -> Self {
        let relay = peers.map(|peers| Arc::new(Relay::new(peers)));
        Self(Arc::new(Parts { relay, roster, ..Parts::clone(&self) }))
    }

    /// Makes traces, if this is not nothing.
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

    /// The same for any kind of act. Acts that clients can repeat at will must not push out those of operators.
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

    /// Takes backups, if these are any.
    pub fn take_backups(self, backups: Option<Arc<Backups>>) -> Self {
        Self(Arc::new(Parts { backups, ..Parts::clone(&self) }))
    }

    /// Tells what happened from the history in `data` too.
    pub fn with_history(self, data: &Path) -> Self {
        let archive = self.archive.clone().with_history(data);
        Self(Arc::new(Parts { archive, ..Parts::clone(&self) }))
    }

    /// Returns only events that are not older than this.
    pub(crate) fn tell_for(self, history_age_max: Duration) -> Self {
        let archive = self.archive.clone().with_age_max(history_age_max);
        Self(Arc::new(Parts { archive, ..Parts::clone(&self) }))
    }

    /// Keeps content in `folder`, or in one that is gone at the end.
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

    /// The same for one thread: it shares no counter of references with another, and has a mailbox to look after.
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

/// The routes of everything the server answers; the door is in front of them.
pub(crate) fn router(app: App, dialects: &[Dialect]) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(healthz))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/leaderz", get(leaderz))
        .route("/metrics", get(metrics));
    // Naming one twice is naming it.
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

/// What is at `/`: the console for browsers, and whatever else is there for everybody else.
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

/// For paths that are nobody's here. Whoever looks for what is switched off is told so.
async fn nothing_at(State(app): State<App>, uri: Uri) -> Response {
    let dialect = crate::dialect::of_path(uri.path());
    let first = uri.path().split('/').nth(1).unwrap_or_default();
    let is_named = dialect.words().contains(&first);
    let why = match (dialect.keeps_content(), app.relay.is_some()) {
        (true, true) => {
            "it keeps content, which would be on one server only of those that share a store (--store)"
        }
        (true, false) if is_named => "--dialects does not name it",
        _ => return nothing_here().await,
    };
    // Whatever is nobody else's could be the path of a file.
    let meant = if is_named { ":" } else { ". If a file was meant:" };
    let why = format!("no such path{meant} the dialect {dialect} is off: {why}");
    failure(StatusCode::NOT_FOUND, Code::NotFound, &why)
}

/// For paths that are nobody's.
pub(crate) async fn nothing_here() -> Response {
    failure(StatusCode::NOT_FOUND, Code::NotFound, "no such path")
}

pub(crate) fn failure(status: StatusCode, code: Code, why: &str) -> Response {
    (status, Json(Failure::new(code, why))).into_response()
}

async fn healthz() -> Response {
    Json(Health::OK).into_response()
}

/// Does the engine's loop go round?
async fn livez(State(app): State<App>) -> Response {
    verdict(app.engine.is_alive(), "the engine does not go round")
}

/// Does this server answer by itself? One that shares its store with nobody always does.
async fn leaderz(State(app): State<App>) -> Response {
    if app.relay.is_none() || app.engine.is_leading() && is_confirmed(&app) {
        return verdict(true, "");
    }
    let mut response = verdict(false, "this server does not lead at present");
    let leader = app.engine.whereabouts().borrow().leader.clone();
    peer::tell_who_leads(leader.as_deref(), &mut response);
    response
}

/// Is it known that nobody else has taken over?
fn is_confirmed(app: &App) -> bool {
    app.engine.unconfirmed_for() < UNCONFIRMED_MAX
}

/// Could something be made durable right now, and will that last?
async fn readyz(State(app): State<App>, caller: Caller) -> Response {
    if let Some(relay) = app.relay.as_deref().filter(|_| !app.engine.is_stopping()) {
        return ready_among_others(&app, relay).await;
    }
    if app.engine.is_stopping() || app.engine.ask(caller.own(Probe)).await.is_err() {
        return verdict(false, "nothing can be made durable right now");
    }
    match app.engine.health().trouble() {
        Some(why) => verdict(false, &why),
        None => verdict(true, ""),
    }
}

/// Would whoever comes here be answered, by this server or through it?
async fn ready_among_others(app: &App, relay: &Relay) -> Response {
    if app.engine.health().pulse().is_drained() {
        return verdict(false, "this server is drained (leasehold cluster drain)");
    }
    if app.engine.is_leading() {
        return verdict(
            is_confirmed(app),
            "the store does not confirm that this server still leads",
        );
    }
    if app.engine.behind_for().is_none_or(|behind| behind > BEHIND_MAX) {
        return verdict(false, "this server follows, and has not read everything for 5 s");
    }
    let why = "this server follows, and cannot reach one that leads (see its log if one does)";
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

/// What there is in each namespace, if whoever asks may know and the engine says so soon. The rest is told without it:
/// metrics are needed most when something does not work.
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
