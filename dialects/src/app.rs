//! The state that all handlers share.

use std::convert::Infallible;
use std::ops::Deref;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::{StatusCode, request};
use axum::response::{IntoResponse, Response};
use leasehold_api::{Code, Failure};
use leasehold_auth::shares::Client;
use leasehold_auth::{Caller, Denied, Gate};
use leasehold_core::{LeaseNumber, Limits, LockKey, RetryHint};
use leasehold_engine::{Archive, AuditLog as _, EngineHandle, Mailbox, Mismatch};

use crate::audit::{Act, Audit, Kind, Part};
use crate::backup::TakesBackups;
use crate::content;
use crate::http;
use crate::http::answers::Answers;
use crate::http::client;
use crate::http::page::{Page, Viewer};
use crate::http::request::Arrival;
use crate::metrics::Metrics;

/// Renders a page for the user who requests it, or the reason why it cannot be shown.
pub type ShowPage = fn(&App, &request::Parts, Result<Page, Denied>) -> Response;

/// A server of a cluster, as the handlers of a follower see it.
pub trait Following: Send + Sync {
    /// Waits until this server has read what the leader had written before, if that does not take long.
    fn catch_up<'a>(
        &'a self,
        engine: &'a EngineHandle,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
}

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
    pub dialect: Arc<crate::Options>,
    /// The limits of the machine.
    pub limits: Arc<Limits>,
    /// The backups; `None` if backups are off.
    pub backups: Option<Arc<dyn TakesBackups>>,
    /// The limits of long responses.
    pub answers: Arc<Answers>,
    /// Past events of locks.
    pub archive: Archive,
    /// Authentication and access control, which can be off.
    pub auth: Arc<Gate>,
    /// The audit files; `None` if they are off.
    pub audit: Option<Arc<Audit>>,
    /// The content store; `None` if no dialect stores content.
    pub content: Option<content::Store>,
    /// How a follower reads what the leader writes; `None` without a cluster.
    pub following: Option<Arc<dyn Following>>,
    /// Renders pages of dialects.
    pub show_page: ShowPage,
}

impl App {
    /// Creates the state of a server that stores no files.
    pub fn new(
        engine: EngineHandle,
        metrics: Arc<Metrics>,
        http: http::Options,
        retry: RetryHint,
        dialect: crate::Options,
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
            content: None,
            following: None,
            show_page: show_to_unknown,
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

    /// Sets how a follower reads what the leader writes; `None` without a cluster.
    pub fn with_following(self, following: Option<Arc<dyn Following>>) -> Self {
        Self(Arc::new(Parts { following, ..Parts::clone(&self) }))
    }

    /// Renders the pages of dialects this way.
    pub fn with_pages(self, show_page: ShowPage) -> Self {
        Self(Arc::new(Parts { show_page, ..Parts::clone(&self) }))
    }

    /// Writes an act of an operator to the audit files.
    pub fn note(&self, caller: &Caller, act: &'static str, more: impl FnOnce(Act) -> Act) {
        self.note_of(Kind::Admin, caller, act, more);
    }

    /// Writes to the audit files that a caller took something away. If it took leases of other principals
    /// (`is_from_others`), the line is kept like those about operators, as long as there are not too many of them.
    pub fn note_taken(
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
    pub fn note_of(
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
    pub fn note_mismatch(
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
    pub fn take_backups(self, backups: Option<Arc<dyn TakesBackups>>) -> Self {
        Self(Arc::new(Parts { backups, ..Parts::clone(&self) }))
    }

    /// Also returns past events from the history in the directory `data`.
    pub fn with_history(self, data: &Path) -> Self {
        let archive = self.archive.clone().with_history(data);
        Self(Arc::new(Parts { archive, ..Parts::clone(&self) }))
    }

    /// Returns only events that are not older than this.
    pub fn tell_for(self, history_age_max: Duration) -> Self {
        let archive = self.archive.clone().with_age_max(history_age_max);
        Self(Arc::new(Parts { archive, ..Parts::clone(&self) }))
    }

    /// Stores content in `folder`, or with `None` in a temporary directory that is removed when the server stops.
    pub fn keep_content(self, folder: Option<&Path>) -> std::io::Result<Self> {
        let files = &self.dialect.files;
        let quota = content::Quota { bytes_max: files.quota, free_min: files.free_space_min };
        let local = match folder {
            Some(folder) => content::Local::open(folder, quota)?,
            None => content::Local::temporary(quota)?,
        };
        let content = Some(content::Store::new(
            Arc::new(local),
            self.http.uploads_max,
            Arc::new(Uploads(self.metrics.clone())),
        ));
        Ok(Self(Arc::new(Parts { content, ..Parts::clone(&self) })))
    }

    /// Clones the state for a worker thread, without reference counts shared between threads. The thread must run the
    /// mailbox.
    pub fn for_thread(&self) -> (Self, Mailbox) {
        let (engine, mailbox) = self.engine.with_mailbox();
        (Self(Arc::new(Parts { engine, ..Parts::clone(self) })), mailbox)
    }
}

/// Counts uploads in the metrics.
struct Uploads(Arc<Metrics>);

impl content::Observer for Uploads {
    fn upload_began(&self) {
        self.0.tasks.uploads.inc();
    }

    fn upload_ended(&self) {
        self.0.tasks.uploads.dec();
    }

    fn upload_refused(&self) {
        self.0.engine.refusals.count("uploads");
    }
}

impl content::Naming for App {
    fn namespace(&self) -> &Arc<str> {
        &self.dialect.files.namespace
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut request::Parts, _: &App) -> Result<Self, Infallible> {
        Ok(Arrival::of(parts).caller.clone())
    }
}

impl FromRequestParts<App> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, Infallible> {
        Ok(client::of_request(&app.http, parts))
    }
}

impl Deref for App {
    type Target = Parts;

    #[inline]
    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// Adds the request id that the client claims.
fn claim_of(caller: &Caller, act: Act) -> Act {
    act.claimed("request_id", caller.trail().and_then(|trail| trail.request_id()))
}

/// Renders a page for a user of whom nothing is known.
fn show_to_unknown(_: &App, _: &request::Parts, page: Result<Page, Denied>) -> Response {
    match page {
        Ok(page) => page.answer(&Viewer::default()),
        Err(denied) => failure(denied.status(), Code::Forbidden, &denied.to_string()),
    }
}

/// Answers unknown paths with 404.
pub async fn nothing_here() -> Response {
    failure(StatusCode::NOT_FOUND, Code::NotFound, "no such path")
}

/// Returns an error in the server's own format, which is that of the native protocol.
pub fn failure(status: StatusCode, code: Code, why: &str) -> Response {
    (status, Json(Failure::new(code, why))).into_response()
}
