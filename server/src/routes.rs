//! The routes of a server: those of the dialects, of the console, and those that belong to no dialect.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get};
use axum::{Json, Router};
use leasehold_api::Code;
use leasehold_auth::Caller;
use leasehold_engine::{CountNamespaces, NamespaceCounts, Probe};

use crate::app::{App, failure, nothing_here};
use crate::console;
use crate::dialect::contract::{self, Health};
use crate::dialect::{Dialect, dav, files};
use crate::host::Host;
use crate::http::request::{Arrival, NOT_ALLOWED};
use crate::metrics::Format;
use crate::peer::{self, Relay};

/// A leader counts as confirmed if the store confirmed it within this time. It asks the store every second.
const UNCONFIRMED_MAX: Duration = Duration::from_secs(2);
/// A follower counts as up to date if it had read all records within this time.
const BEHIND_MAX: Duration = Duration::from_secs(5);
/// Maximum time that `/metrics` waits for the counts per namespace, which only the engine knows.
const NAMESPACES_MAX: Duration = Duration::from_secs(1);

/// Creates the routes of the server. The front end ([`Door`](crate::door::Door)) calls them.
pub(crate) fn router(host: Host, dialects: &[Dialect]) -> Router {
    let app = App::clone(&host);
    let mut router = Router::new()
        .route("/healthz", get(healthz))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/leaderz", get(leaderz))
        .route("/metrics", get(metrics));
    // A dialect that is named twice counts once.
    let dialects: BTreeSet<_> = dialects.iter().copied().collect();
    router = router.merge(console::routes());
    let mut of_dialects = contract::routes(&app, &dialects);
    let rest = dialects.contains(&Dialect::Files).then(|| files::rest(&app)).flatten();
    let is_dav = dialects.contains(&Dialect::Dav) && app.content.is_some();
    for dialect in dialects {
        of_dialects = of_dialects.merge(dialect.routes(&app));
    }
    let rest = rest.unwrap_or_else(|| any(nothing_at).with_state(host.clone()));
    let router = router.merge(of_dialects.with_state(app));
    let router =
        router.route("/", front(host.clone(), rest.clone(), is_dav)).fallback_service(rest);
    router
        .method_not_allowed_fallback(async || {
            failure(StatusCode::METHOD_NOT_ALLOWED, Code::MethodNotAllowed, NOT_ALLOWED)
        })
        .with_state(host)
}

/// Routes `/`: browsers get the console, other clients the service at that path, if there is one.
fn front(host: Host, rest: MethodRouter, is_dav: bool) -> MethodRouter<Host> {
    any(async move |request: Request| {
        let (method, headers) = (request.method(), request.headers());
        if is_dav && method == Method::OPTIONS {
            return dav::options();
        }
        if console::is_visit(method, request.uri().path(), headers) {
            return console::front(host.clone(), request).await;
        }
        let Ok(mut response) = tower::ServiceExt::oneshot(rest.clone(), request).await;
        response.headers_mut().append(header::VARY, HeaderValue::from_static("Accept"));
        response
    })
}

/// Answers unknown paths. If the path belongs to a dialect that is off, the message says so.
async fn nothing_at(State(app): State<Host>, uri: Uri) -> Response {
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

async fn healthz() -> Response {
    Json(Health::OK).into_response()
}

/// Handles `/livez`: checks that the engine's loop is running.
async fn livez(State(app): State<Host>) -> Response {
    verdict(app.engine.is_alive(), "the engine is stuck")
}

/// Handles `/leaderz`: checks that this server answers requests itself. Always succeeds without a cluster.
async fn leaderz(State(app): State<Host>) -> Response {
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
async fn readyz(State(app): State<Host>, caller: Caller) -> Response {
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
            "the store does not confirm that this server is still the leader",
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

async fn metrics(State(app): State<Host>, caller: Caller, request: Request) -> Response {
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
