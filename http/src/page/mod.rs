//! The parts that all HTML pages share: head, navigation, the signed-in user, and the response headers.
//!
//! The server renders complete pages with `maud`; a small script updates them live. The content security policy forbids
//! content from other hosts and all other scripts.

mod asset;
mod shape;
mod words;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

use crate::html::{escape, escape_lines};
pub use asset::routes;
pub use shape::{Shape, state};
pub use words::{ago, bytes, count, day, left, length, moment};

/// Content security policy: browsers load, run and contact only this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Text from users, escaped for HTML.
pub struct Text<'a>(pub &'a str);

impl Render for Text<'_> {
    fn render_to(&self, buffer: &mut String) {
        buffer.push_str(&escape(self.0));
    }
}

/// Text from users that can have several lines, escaped for HTML.
pub struct Lines<'a>(pub &'a str);

impl Render for Lines<'_> {
    fn render_to(&self, buffer: &mut String) {
        buffer.push_str(&escape_lines(self.0));
    }
}

/// Renders a name that a user has chosen: of a lock, an owner or a file.
pub fn name(name: &str) -> Markup {
    html! { bdi.name { (Text(name)) } }
}

/// Renders a second name next to another one: a namespace or a principal.
pub fn tag(name: &str) -> Markup {
    html! { bdi.tag.own { (Text(name)) } }
}

/// A page of the console in the navigation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// All locks.
    Locks,
    /// All sessions.
    Sessions,
    /// The files.
    Files,
    /// The servers.
    Cluster,
    /// How to take a lock.
    Take,
}

const PLACES: [(Place, &str, &str); 5] = [
    (Place::Locks, "/console", "Locks"),
    (Place::Sessions, "/console/sessions", "Sessions"),
    (Place::Files, "/console/files", "Files"),
    (Place::Cluster, "/console/cluster", "Cluster"),
    (Place::Take, "/console/take", "Take a lock"),
];

/// The user who views a page.
#[derive(Clone, Debug, Default)]
pub struct Viewer {
    /// The name of the principal; `None` without authentication, or if the user is anonymous.
    pub name: Option<String>,
    /// Shows a link to sign in.
    pub may_sign_in: bool,
    /// `true` if the browser has a session cookie, so that the user can sign out.
    pub is_signed_in: bool,
    /// `true` if the user can see sessions.
    pub has_sessions: bool,
    /// `true` if there are files that the user can see.
    pub has_files: bool,
}

impl Viewer {
    /// Returns whether the navigation contains this page.
    fn has(&self, place: Place) -> bool {
        match place {
            Place::Sessions => self.has_sessions,
            Place::Files => self.has_files,
            Place::Locks | Place::Cluster | Place::Take => true,
        }
    }
}

/// A page before it is rendered.
pub struct Page {
    title: String,
    place: Option<Place>,
    live: Option<String>,
    here: Option<String>,
    pace: Option<u32>,
    refresh: Option<(u32, String)>,
    is_narrow: bool,
    status: StatusCode,
    body: Markup,
}

impl Page {
    /// Creates a page.
    pub fn new(title: impl Into<String>, body: Markup) -> Self {
        Self {
            title: title.into(),
            place: None,
            live: None,
            here: None,
            pace: None,
            refresh: None,
            is_narrow: false,
            status: StatusCode::OK,
            body,
        }
    }

    /// Creates a page that shows only a heading and a short text.
    pub fn narrow(title: &str, body: Markup) -> Self {
        let body = html! { h1 { (Text(title)) } div.stack { (body) } };
        Self { is_narrow: true, ..Self::new(title, body) }
    }

    /// Marks the page as current in the navigation.
    pub fn at(self, place: Place) -> Self {
        Self { place: Some(place), ..self }
    }

    /// Sets the URL from which the script receives change events.
    pub fn live(self, url: impl Into<String>) -> Self {
        Self { live: Some(url.into()), ..self }
    }

    /// Sets the URL from which the script reloads the page. Needed if the page is the response to a form, because the
    /// URL of the form has no page to reload.
    pub fn here(self, url: impl Into<String>) -> Self {
        Self { here: Some(url.into()), ..self }
    }

    /// Makes the script reload the page at this interval in milliseconds, even without change events.
    pub fn pace(self, ms: u32) -> Self {
        Self { pace: Some(ms), ..self }
    }

    /// Makes the browser open this path of the server after `seconds`.
    pub fn refresh(self, seconds: u32, to: &str) -> Self {
        Self { refresh: Some((seconds, to.into())), ..self }
    }

    /// Sets the status of the response.
    pub fn status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Renders the page for this viewer.
    pub fn answer(self, viewer: &Viewer) -> Response {
        let status = self.status;
        let mut answer = (status, self.render(viewer).into_string()).into_response();
        let headers = answer.headers_mut();
        for (name, value) in [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            (header::CACHE_CONTROL, "no-store"),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::REFERRER_POLICY, "same-origin"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            // The response at `/` depends on this header.
            (header::VARY, "Accept"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        answer
    }

    fn render(self, viewer: &Viewer) -> Markup {
        let Self { title, place, live, here, pace, refresh, is_narrow, body, .. } = self;
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    @match &refresh {
                        // A live page is reloaded this way only in browsers without scripts, so that nothing is
                        // reloaded while the user reads.
                        Some((seconds, to)) if live.is_some() && *seconds > 0 => {
                            noscript { (again(*seconds, to)) }
                        }
                        Some((seconds, to)) => (again(*seconds, to)),
                        None => {}
                    }
                    title { (Text(&title)) " · Leasehold" }
                    link rel="icon" href=(asset::ICON.url()) type="image/svg+xml";
                    link rel="stylesheet" href=(asset::CSS.url());
                    @if live.is_some() || place == Some(Place::Take) {
                        script type="module" src=(asset::JS.url()) {}
                    }
                }
                body data-live=[live] data-here=[here] data-pace=[pace] {
                    a.skip href="#main" { "Skip to the content" }
                    (top(place, viewer))
                    main #main .narrow[is_narrow] tabindex="-1" { (body) }
                }
            }
        }
    }
}

/// Renders a `meta` element that makes the browser open this path.
fn again(seconds: u32, to: &str) -> Markup {
    let to = escape(to);
    PreEscaped(format!("<meta http-equiv=\"refresh\" content=\"{seconds};url={to}\">"))
}

/// Renders the navigation and the sign-out button.
fn top(here: Option<Place>, viewer: &Viewer) -> Markup {
    html! {
        header.top {
            div {
                a.brand href="/console" { img src=(asset::ICON.url()) alt=""; "Leasehold" }
                nav aria-label="Pages" {
                    ul {
                        @for (place, path, word) in PLACES {
                            @if viewer.has(place) {
                                li {
                                    a href=(path) aria-current=[(here == Some(place)).then_some("page")] { (word) }
                                }
                            }
                        }
                    }
                }
                div.who {
                    @if let Some(who) = &viewer.name {
                        span title={ "Signed in as " (Text(who)) } { span.unseen { "Signed in as " } (name(who)) }
                    }
                    @if viewer.is_signed_in {
                        form method="post" action="/console/sign-out" { button.plain { "Sign out" } }
                    } @else if viewer.may_sign_in {
                        a href="/console/sign-in" { "Sign in" }
                    }
                }
            }
        }
    }
}

/// Renders the title of a page, a description, and the element in which the script shows whether the page is live.
pub fn title(title: Markup, about: Markup) -> Markup {
    html! {
        div.title {
            h1 { (title) }
            p.sub data-part="about" { (about) }
            span #live role="status" {}
        }
    }
}
