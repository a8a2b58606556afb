//! Signs in users of a browser, with an OpenID Connect issuer or with an API key.
//!
//! The session cookie is a credential like any other: the user gets the rights of the principal, and each request with
//! the cookie passes the same checks as other requests from browsers.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use leasehold_auth::issuer::{Code, Issuer};
use leasehold_auth::sign_in::attempt::{Attempts, LASTS_SECONDS};
use leasehold_auth::sign_in::{self, SignIns, cookie};
use leasehold_auth::{Authority, Denied, Principal};
use maud::{Markup, html};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::form;
use super::visit::Visit;
use crate::audit::Kind;
use crate::host::Host;
use crate::http::forwarded;
use crate::http::page::{Page, Text, Viewer, name};
use crate::http::request::{self, Arrival};

/// The page to show after signing in if no other page was requested.
pub(super) const HOME: &str = "/console";
const FORM_BYTES_MAX: usize = 8 * 1024;
/// Maximum length of the path that the browser opens after signing in.
const TO_BYTES_MAX: usize = 512;
/// How long a user who signed in with an API key stays signed in.
const KEY_SESSION_MS: i64 = 12 * 3600 * 1000;

type ErrorResponse = Box<Response>;

pub(super) fn routes() -> Router<Host> {
    Router::new()
        .route("/console/sign-in", get(sign_in).post(sign_in_by_key))
        .route("/console/callback", get(callback))
        .route("/console/sign-out", post(sign_out))
}

#[derive(Deserialize)]
struct SignInQuery {
    /// The name of the issuer.
    with: Option<String>,
    to: Option<String>,
}

#[derive(Deserialize)]
struct Shown {
    key: String,
    to: Option<String>,
}

#[derive(Deserialize)]
struct CameBack {
    code: Option<String>,
    state: Option<String>,
    iss: Option<String>,
    error: Option<String>,
}

/// The data that every handler needs. It does not exist if authentication is off.
struct Desk<'a> {
    authority: Arc<Authority>,
    sign_ins: &'a SignIns,
    wall_ms: i64,
    is_private: bool,
}

impl<'a> Desk<'a> {
    fn of(app: &'a Host, parts: &Parts) -> Result<Self, ErrorResponse> {
        let both = app.auth.authority().zip(app.auth.sign_ins());
        let Some((authority, sign_ins)) = both else {
            let text = "Authentication is off: clients are not authenticated.";
            return Err(words(
                StatusCode::OK,
                html! { p { (text) } p { a href=(HOME) { "Go to the locks" } } },
            ));
        };
        let is_private = Arrival::of(parts).is_private;
        Ok(Self { authority, sign_ins, wall_ms: app.engine.wall_ms(), is_private })
    }

    /// Refuses to set cookies on connections that others could read.
    fn check_private(&self) -> Result<(), ErrorResponse> {
        if self.is_private {
            return Ok(());
        }
        let text = "Signing in needs TLS: https, or a proxy of --trusted-proxies that reports it (X-Forwarded-Proto).";
        Err(words(StatusCode::BAD_REQUEST, html! { p { (text) } }))
    }
}

/// Shows the sign-in page, or redirects to the chosen issuer.
async fn sign_in(State(app): State<Host>, parts: Parts) -> Response {
    entrance(&app, &parts).await.unwrap_or_else(|answer| *answer)
}

async fn entrance(app: &Host, parts: &Parts) -> Result<Response, ErrorResponse> {
    let desk = Desk::of(app, parts)?;
    desk.check_private()?;
    let asked: SignInQuery = query(&parts.uri)?;
    let to = local(asked.to.as_deref());
    let Some(with) = asked.with else {
        if request::is_sent(&parts.headers) {
            return Ok(again(parts.uri.path_and_query().map_or(HOME, |here| here.as_str())));
        }
        let viewer = Visit::new(app.clone(), parts).viewer();
        return Ok(match viewer.name.filter(|_| viewer.is_signed_in) {
            Some(who) => choice(&desk, to, &Greeting::SignedIn(&who), StatusCode::OK),
            None => choice(&desk, to, &Greeting::None, StatusCode::OK),
        });
    };
    let found = desk.authority.issuers().iter().find(|issuer| *issuer.config().name == *with);
    let login = found.and_then(|issuer| Some((issuer, issuer.config().login.as_ref()?)));
    let Some((issuer, login)) = login else {
        return Err(failed(StatusCode::NOT_FOUND, "You cannot sign in with this."));
    };
    let arrival = Arrival::of(parts);
    let from = forwarded::client(&parts.headers, arrival.peer, &app.http.trusted_proxies);
    // Finding the sign-in page of the issuer can take a request to it, so lookups are limited.
    leasehold_auth::may_look_up(&desk.authority, from, app.engine.at(arrival.received)).map_err(
        |doubt| {
            let denied = Denied::from(doubt);
            failed(denied.status(), &denied.to_string())
        },
    )?;
    let before = cookie::only(&parts.headers, cookie::SESSION).ok().flatten();
    let before = before.map(|secret| leasehold_auth::hex(&sign_in::digest(secret)));
    let attempt = Attempts::begin(&with, to, before, desk.wall_ms);
    let sign_in::attempt::Attempt { state, nonce, verifier, .. } = &attempt;
    let away = issuer.entrance(login, state, nonce, verifier).await.map_err(|why| {
        tracing::warn!(issuer = issuer.config().issuer, why, "sign-in is unavailable");
        failed(StatusCode::SERVICE_UNAVAILABLE, "The issuer does not respond. Try again later.")
    })?;
    let sealed = desk.sign_ins.attempts().seal(&attempt);
    Ok(see_other(&away, &[cookie::attempt(&sealed, LASTS_SECONDS)]))
}

/// The text above the sign-in options.
enum Greeting<'a> {
    None,
    Wrong(&'a str),
    SignedIn(&'a str),
}

/// Returns a page that makes the browser repeat the request. Browsers send no session cookie with a request that starts
/// on another site, but they send it with a request that starts on a page of this server.
pub(super) fn again(here: &str) -> Response {
    let body = html! { p { a href=(Text(here)) { "Go on" } } };
    Page::narrow("One moment", body).refresh(0, here).answer(&Viewer::default())
}

/// Renders the sign-in options: all issuers, and the form for an API key.
fn choice(desk: &Desk<'_>, to: &str, greeting: &Greeting<'_>, status: StatusCode) -> Response {
    let with_login = desk.authority.issuers().iter().filter(|it| it.config().login.is_some());
    let entrances = with_login.map(|issuer| {
        let own = &issuer.config().name;
        let query = leasehold_auth::issuer::encode(&[("with", own), ("to", to)]);
        (format!("/console/sign-in?{query}"), own)
    });
    let body = html! {
        @match greeting {
            Greeting::None => {}
            Greeting::Wrong(wrong) => p.note.bad role="alert" { (wrong) },
            Greeting::SignedIn(who) => {
                p.note { "You are signed in as " (name(who)) ". " a href=(Text(to)) { "Go on" } }
                form method="post" action="/console/sign-out" { button { "Sign out" } }
                p.dim { "Or sign in as another user:" }
            }
        }
        @for (href, own) in entrances {
            p { a.button href=(Text(&href)) { "Sign in with " (Text(own)) } }
        }
        form.card.stack method="post" action="/console/sign-in" autocomplete="off" {
            input type="hidden" name="to" value=(Text(to));
            label.field { "API key" input type="password" name="key" required autocomplete="off"; }
            button.main { "Sign in" }
        }
    };
    *words(status, body)
}

async fn sign_in_by_key(State(app): State<Host>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    by_key(&app, &parts, body).await.unwrap_or_else(|answer| *answer)
}

/// Adds a `Retry-After` header, rounded up to whole seconds.
fn too_often(denied: Denied) -> ErrorResponse {
    let mut refused = failed(denied.status(), &denied.to_string());
    if let Denied::TooOften(_, wait) = denied {
        let seconds = wait.as_millis().div_ceil(1000).max(1) as u64;
        refused.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    refused
}

async fn by_key(app: &Host, parts: &Parts, body: Body) -> Result<Response, ErrorResponse> {
    let desk = Desk::of(app, parts)?;
    desk.check_private()?;
    let shown = form::read(app, body, FORM_BYTES_MAX).await;
    let Shown { key, to } = shown.map_err(|why| failed(StatusCode::BAD_REQUEST, &why))?;
    let to = local(to.as_deref());
    let arrival = Arrival::of(parts);
    let Some(principal) = desk.authority.by_key(key.trim(), desk.wall_ms) else {
        let from = forwarded::client(&parts.headers, arrival.peer, &app.http.trusted_proxies);
        return Err(match app.auth.take_failure(from, app.engine.at(arrival.received)) {
            Ok(()) => {
                let wrong = Greeting::Wrong("Unknown API key.");
                choice(&desk, to, &wrong, StatusCode::UNAUTHORIZED).into()
            }
            Err(denied) => too_often(denied),
        });
    };
    let ends_ms = desk.wall_ms.saturating_add(KEY_SESSION_MS);
    let expires_ms = desk.authority.key_expiry(principal.credential()).unwrap_or(i64::MAX);
    // Ends the previous session of this browser.
    if let Ok(Some(before)) = cookie::only(&parts.headers, cookie::SESSION) {
        desk.sign_ins.end(before);
    }
    let caller = arrival.caller.signed_in(principal.clone());
    let session = begin(&desk, principal, ends_ms.min(expires_ms))?;
    app.note_of(Kind::Session, &caller, "sign-in", |act| act.detail("with", "API key"));
    Ok(see_other(to, &[session]))
}

/// Starts a session and returns its cookie.
fn begin(desk: &Desk<'_>, principal: Principal, ends_ms: i64) -> Result<String, ErrorResponse> {
    let secret = desk.sign_ins.begin(principal, ends_ms, desk.wall_ms).ok_or_else(|| {
        let why = "Too many people are signed in (auth-sign-ins-max). Try again later.";
        failed(StatusCode::SERVICE_UNAVAILABLE, why)
    })?;
    Ok(cookie::session(&secret, ends_ms.saturating_sub(desk.wall_ms) / 1000))
}

async fn callback(State(app): State<Host>, parts: Parts) -> Response {
    // The cookie of a sign-in attempt is deleted even if the attempt fails.
    let mut answer = come_back(&app, &parts).await.unwrap_or_else(|answer| *answer);
    if let Ok(over) = HeaderValue::from_str(&cookie::attempt("", 0)) {
        answer.headers_mut().append(header::SET_COOKIE, over);
    }
    answer
}

async fn come_back(app: &Host, parts: &Parts) -> Result<Response, ErrorResponse> {
    let desk = Desk::of(app, parts)?;
    desk.check_private()?;
    let CameBack { code, state, iss, error } = query(&parts.uri)?;
    let unexpected = || {
        let why = "This sign-in was started in another browser, has ended, or took longer than ten minutes.";
        failed(StatusCode::BAD_REQUEST, why)
    };
    let attempt = cookie::only(&parts.headers, cookie::ATTEMPT).ok().flatten();
    let (attempt, state) = attempt.zip(state).ok_or_else(unexpected)?;
    let attempt = desk.sign_ins.attempts().finish(attempt, &state, desk.wall_ms);
    let attempt = attempt.ok_or_else(unexpected)?;
    let with = |issuer: &&Arc<Issuer>| *issuer.config().name == *attempt.with;
    let issuer = desk.authority.issuers().iter().find(with);
    let login = issuer.and_then(|issuer| Some((issuer, issuer.config().login.as_ref()?)));
    let (issuer, login) = login.ok_or_else(unexpected)?;
    if let Some(error) = error {
        let error: String = error.chars().take(100).collect();
        let why = format!("The issuer did not sign you in: {error}.");
        return Err(failed(StatusCode::FORBIDDEN, &why));
    }
    let code = code.ok_or_else(unexpected)?;
    let code = Code {
        code: &code,
        issuer: iss.as_deref(),
        nonce: &attempt.nonce,
        verifier: &attempt.verifier,
    };
    let arrival = Arrival::of(parts);
    let from = forwarded::client(&parts.headers, arrival.peer, &app.http.trusted_proxies);
    let now = (app.engine.at(arrival.received), desk.wall_ms);
    let admitted = leasehold_auth::admit(&desk.authority, issuer, login, &code, from, now).await;
    let principal = admitted.map_err(|denied: Denied| {
        failed(denied.status(), &format!("You could not be signed in: {denied}."))
    })?;
    if let Some(before) = attempt.before.as_deref().and_then(leasehold_auth::unhex) {
        desk.sign_ins.end_of(&before);
    }
    let ends_ms = desk.wall_ms.saturating_add(login.session.as_millis() as i64);
    let caller = arrival.caller.signed_in(principal.clone());
    let session = begin(&desk, principal, ends_ms)?;
    app.note_of(Kind::Session, &caller, "sign-in", |act| act.detail("with", attempt.with.as_str()));
    // Browsers would treat a redirect as a request from the issuer's site, and would not send the cookie with it.
    let body = html! { p { a href=(Text(&attempt.to)) { "Go on" } } };
    let page = Page::narrow("Signed in", body).refresh(0, &attempt.to);
    Ok(with_cookies(page.answer(&Viewer::default()), &[session]))
}

async fn sign_out(State(app): State<Host>, parts: Parts) -> Response {
    let desk = match Desk::of(&app, &parts) {
        Ok(desk) => desk,
        Err(answer) => return *answer,
    };
    if let Ok(Some(secret)) = cookie::only(&parts.headers, cookie::SESSION) {
        desk.sign_ins.end(secret);
        let caller = &Arrival::of(&parts).caller;
        if !caller.principal().is_anonymous() {
            app.note_of(Kind::Session, caller, "sign-out", |act| act);
        }
        // Wakes pending requests of the user, so that they end too.
        app.auth.ring();
    }
    see_other("/console/sign-in", &[cookie::session("", 0)])
}

/// Returns the path if it is on this server, and the home page otherwise. It rejects paths that browsers would resolve
/// to another host.
fn local(to: Option<&str>) -> &str {
    let is_local = |to: &&str| {
        to.len() <= TO_BYTES_MAX
            && to.starts_with('/')
            && !to.starts_with("//")
            && to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    to.filter(is_local).unwrap_or(HOME)
}

fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, ErrorResponse> {
    let parsed = axum::extract::Query::try_from_uri(uri);
    let parsed = parsed.map(|axum::extract::Query(asked)| asked);
    parsed.map_err(|_| failed(StatusCode::BAD_REQUEST, "The query of this address is invalid."))
}

fn failed(status: StatusCode, why: &str) -> ErrorResponse {
    words(
        status,
        html! { p.note.bad { (Text(why)) } p { a href="/console/sign-in" { "Sign in" } } },
    )
}

fn words(status: StatusCode, body: Markup) -> ErrorResponse {
    Page::narrow("Sign in", body).status(status).answer(&Viewer::default()).into()
}

pub(super) fn see_other(to: &str, cookies: &[String]) -> Response {
    let answer = (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response();
    with_cookies(answer, cookies)
}

fn with_cookies(mut answer: Response, cookies: &[String]) -> Response {
    let headers = answer.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for cookie in cookies {
        if let Ok(cookie) = HeaderValue::from_str(cookie) {
            headers.append(header::SET_COOKIE, cookie);
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_on_this_server() {
        for to in ["/", "/console", "/lock/page?x=1#a", "/a//b"] {
            assert_eq!(local(Some(to)), to);
        }
        let long = format!("/{}", "a".repeat(TO_BYTES_MAX));
        for to in [
            "",
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "/a\nb",
            "/ä",
            " /a",
            "javascript:alert(1)",
            &long,
        ] {
            assert_eq!(local(Some(to)), HOME, "{to}");
        }
        assert_eq!(local(None), HOME);
    }
}
