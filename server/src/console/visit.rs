//! The request of a browser: the user, the requested page, and the error page if the page cannot be shown.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::Response;
use leasehold_auth::sign_in::cookie;
use leasehold_auth::{Caller, Denied, Right};
use leasehold_core::Rejection;
use leasehold_engine as engine;
use maud::{Markup, html};
use serde::de::DeserializeOwned;

use super::sign_in::{self, HOME};
use crate::host::Host;
use crate::http::answers::TooMuch;
use crate::http::forwarded;
use crate::http::page::{Page, Text, Viewer};
use crate::http::request::{self, Arrival};
use leasehold_auth::shares::Client;

/// A request for a page, and the user who makes it.
#[derive(Clone)]
pub(super) struct Visit {
    pub(super) app: Host,
    pub(super) caller: Caller,
    pub(super) uri: Uri,
    pub(super) client: Client,
    /// The URL at which the user reached the server, such as `https://locks.example.org`.
    pub(super) origin: String,
    is_signed_in: bool,
    /// `true` if the request only reads.
    is_look: bool,
    /// `true` if the request comes from a page of another site, so that the browser did not send the session cookie.
    is_sent: bool,
}

/// Why a page cannot be shown.
pub(super) enum Trouble {
    /// The user has no right to see the page, or is not authenticated.
    Denied(Denied),
    /// The request is invalid.
    Wrong(String),
    /// The requested object does not exist.
    Missing(String),
    /// The state has changed since the page was shown.
    Changed(String),
    /// The server cannot answer at present.
    Later(String),
    /// An internal error.
    Failed(String),
}

impl From<Denied> for Trouble {
    fn from(denied: Denied) -> Self {
        Trouble::Denied(denied)
    }
}

impl From<engine::Error> for Trouble {
    fn from(error: engine::Error) -> Self {
        Trouble::Later(error.to_string())
    }
}

impl From<TooMuch> for Trouble {
    fn from(too_much: TooMuch) -> Self {
        Trouble::Later(too_much.to_string())
    }
}

impl From<Rejection> for Trouble {
    fn from(rejection: Rejection) -> Self {
        Trouble::Wrong(crate::dialect::in_words(&rejection))
    }
}

impl<S: Sync> FromRequestParts<S> for Visit
where
    Host: axum::extract::FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(Self::new(axum::extract::FromRef::from_ref(state), parts))
    }
}

impl Visit {
    pub(super) fn new(app: Host, parts: &Parts) -> Self {
        Self::of(app, Arrival::of(parts), &parts.method, &parts.uri, &parts.headers)
    }

    pub(super) fn of(
        app: Host,
        arrival: &Arrival,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Self {
        let caller = arrival.caller.clone();
        let has_cookie = cookie::only(headers, cookie::SESSION).is_ok_and(|it| it.is_some());
        let is_signed_in = has_cookie && !caller.principal().is_anonymous();
        let origin = origin(&app, &caller, arrival, headers, uri);
        let is_look = method == Method::GET || method == Method::HEAD;
        let is_sent = is_look && request::is_sent(headers);
        let address = || forwarded::client(headers, arrival.peer, &app.http.trusted_proxies);
        let client = Client::of(&caller, || app.http.network_of(address()));
        Self { app, caller, client, uri: uri.clone(), origin, is_signed_in, is_look, is_sent }
    }

    /// Renders the page or the reason why it cannot be shown. Redirects unauthenticated users to the sign-in page.
    pub(super) fn answer(&self, page: Result<Page, Trouble>) -> Response {
        let viewer = self.viewer();
        let trouble = match page {
            Ok(page) => return page.answer(&viewer),
            Err(trouble) => trouble,
        };
        let (status, why) = match trouble {
            Trouble::Denied(Denied::Unauthenticated(_)) if self.caller.is_asked() => {
                return match self.is_sent {
                    true => sign_in::again(self.here()),
                    false => sign_in::see_other(&self.entrance(), &[]),
                };
            }
            Trouble::Denied(denied) => (denied.status(), denied.to_string()),
            Trouble::Wrong(why) => (StatusCode::BAD_REQUEST, why),
            Trouble::Missing(why) => (StatusCode::NOT_FOUND, why),
            Trouble::Changed(why) => (StatusCode::CONFLICT, why),
            Trouble::Later(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
            Trouble::Failed(why) => (StatusCode::INTERNAL_SERVER_ERROR, why),
        };
        let mut answer = self.apology(status, &why).answer(&viewer);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            answer.headers_mut().insert(header::RETRY_AFTER, 1.into());
        }
        answer
    }

    /// Renders the error page for a client with an invalid credential.
    pub(super) fn turn_away(&self, denied: &Denied) -> Response {
        self.apology(denied.status(), &denied.to_string()).answer(&self.viewer())
    }

    pub(super) fn viewer(&self) -> Viewer {
        let principal = self.caller.principal();
        let is_known = self.caller.is_asked() && !principal.is_anonymous();
        Viewer {
            name: is_known.then(|| principal.name().to_string()),
            may_sign_in: self.caller.is_asked() && !is_known,
            is_signed_in: self.is_signed_in,
            has_sessions: self.caller.check_everywhere(Right::Admin).is_ok(),
            has_files: self.has_files(),
        }
    }

    fn has_files(&self) -> bool {
        let Self { app, caller, .. } = self;
        let is_open = caller.is_asked() || app.dialect.files.is_public;
        app.content.is_some() && is_open && caller.check_somewhere(Right::FilesRead, None).is_ok()
    }

    /// Returns the requested path and query.
    fn here(&self) -> &str {
        self.uri.path_and_query().map_or(HOME, |here| here.as_str())
    }

    /// Returns the URL of the sign-in page, with this page as the page to open afterwards.
    fn entrance(&self) -> String {
        let here = self.here();
        // A request that changes something is not repeated after signing in.
        if here == HOME || here == "/" || !self.is_look {
            return "/console/sign-in".into();
        }
        format!("/console/sign-in?{}", leasehold_auth::issuer::encode(&[("to", here)]))
    }

    /// Checks that the user is authenticated, unless anonymous users have rights.
    pub(super) fn check_known(&self) -> Result<(), Trouble> {
        Ok(self.caller.check_known()?)
    }

    /// Returns whether the user can see data of all namespaces.
    pub(super) fn sees_all(&self) -> bool {
        self.caller.check_everywhere(Right::Read).is_ok()
    }

    /// Renders the notice with this id, if it was not shown before.
    pub(super) fn notice(&self, id: &str) -> Markup {
        html! {
            @if let Some(text) = self.app.notices.take(id) { p.note role="status" { (Text(&text)) } }
        }
    }

    /// Parses the query parameters. Unknown parameters are ignored, because other programs add some to the links they
    /// share.
    pub(super) fn params<T: DeserializeOwned>(&self) -> Result<T, Trouble> {
        let wrong = |why: String| {
            let why = why.strip_prefix("the query: ").unwrap_or(&why);
            let named = |word: &str| why.strip_prefix(word)?.strip_suffix('`');
            Trouble::Wrong(match (named("missing field `"), named("duplicate field `")) {
                (Some(name), _) => {
                    format!("the address has no {name} ({name}=...)")
                }
                (_, Some(name)) => format!("the address has {name}=... twice"),
                _ => format!("the address: {why}"),
            })
        };
        crate::dialect::query::parse(&self.uri).map_err(wrong)
    }
}

impl Visit {
    /// Renders an error page, with links only to pages that the user can open.
    fn apology(&self, status: StatusCode, why: &str) -> Page {
        let is_known = self.viewer().name.is_some();
        let may_read = self.caller.check_somewhere(Right::Read, None).is_ok();
        let body: Markup = html! {
            p.note.bad role="alert" { (Text(why)) }
            @if status == StatusCode::FORBIDDEN && is_known {
                p { a href=(Text(&self.entrance())) { "Sign in as another user" } }
            }
            @if may_read {
                p { a href=(HOME) { "Go to the locks" } }
            } @else if is_known {
                p { a href="/console/take" { "See how to acquire a lock" } }
            }
        };
        Page::narrow(title_of(status), body).status(status)
    }
}

fn title_of(status: StatusCode) -> &'static str {
    match status {
        StatusCode::FORBIDDEN => "Not allowed",
        StatusCode::UNAUTHORIZED => "Not known",
        StatusCode::TOO_MANY_REQUESTS => "Too many attempts",
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::BAD_REQUEST => "This page cannot be shown",
        StatusCode::CONFLICT => "Something changed in the meantime",
        StatusCode::SERVICE_UNAVAILABLE => "Not now",
        _ => "Something went wrong",
    }
}

/// Returns the URL at which clients reach the server: the configured public URL, or one derived from the request.
fn origin(
    app: &Host,
    caller: &Caller,
    arrival: &Arrival,
    headers: &HeaderMap,
    uri: &Uri,
) -> String {
    let public = caller.authority().and_then(|authority| authority.public_url());
    if let Some(public) = public {
        return public.trim_end_matches('/').into();
    }
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = named.or_else(|| uri.authority().map(|host| host.as_str())).unwrap_or("localhost");
    let proxies = &app.http.trusted_proxies;
    let scheme = forwarded::reached_by(headers, uri, arrival.peer, arrival.link.is_tls, proxies);
    format!("{scheme}://{host}")
}

/// Returns the URL of a page of the console. Empty parameters are left out.
pub(super) fn address(path: &str, query: &[(&str, &str)]) -> String {
    let query: Vec<_> = query.iter().copied().filter(|(_, value)| !value.is_empty()).collect();
    match query.is_empty() {
        true => path.into(),
        false => format!("{path}?{}", leasehold_auth::issuer::encode(&query)),
    }
}

/// Returns the URL of the page of a lock.
pub(super) fn of_lock(namespace: &str, name: &str) -> String {
    address("/console/lock", &[("namespace", namespace), ("name", name)])
}
