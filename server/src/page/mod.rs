//! What every page for people has: the head, the ways to the others, who is signed in, and what its browser is told.
//!
//! Pages are written with `maud`, whole, by the server; a small module makes them live. Nothing on them comes from
//! elsewhere, and nothing runs but that module: the policy forbids it.

mod asset;
mod shape;
mod words;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

use crate::http::html::{escape, escape_lines};
pub(crate) use asset::routes;
pub(crate) use shape::{Shape, state};
pub(crate) use words::{ago, bytes, count, day, left, length, moment};

/// Only what this server itself sends is shown, run or asked.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// A text of somebody's, whatever is in it.
pub(crate) struct Text<'a>(pub(crate) &'a str);

impl Render for Text<'_> {
    fn render_to(&self, buffer: &mut String) {
        buffer.push_str(&escape(self.0));
    }
}

/// A text of somebody's that has lines.
pub(crate) struct Lines<'a>(pub(crate) &'a str);

impl Render for Lines<'_> {
    fn render_to(&self, buffer: &mut String) {
        buffer.push_str(&escape_lines(self.0));
    }
}

/// A name of somebody's choosing: of a lock, an owner, a file.
pub(crate) fn name(name: &str) -> Markup {
    html! { bdi.name { (Text(name)) } }
}

/// Another name of somebody's choosing that stands beside one: a namespace, a principal.
pub(crate) fn tag(name: &str) -> Markup {
    html! { bdi.tag.own { (Text(name)) } }
}

/// A page of the console, for the ways to the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Locks,
    Sessions,
    Files,
    Cluster,
    Take,
}

const PLACES: [(Place, &str, &str); 5] = [
    (Place::Locks, "/console", "Locks"),
    (Place::Sessions, "/console/sessions", "Sessions"),
    (Place::Files, "/console/files", "Files"),
    (Place::Cluster, "/console/cluster", "Cluster"),
    (Place::Take, "/console/take", "Take a lock"),
];

/// Who looks at it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Viewer {
    /// As whom they are signed in; `None`: nobody asks who they are, or they have not said so.
    pub(crate) name: Option<String>,
    /// Could they sign in?
    pub(crate) may_sign_in: bool,
    /// Did they sign in with this browser, so that they can sign out?
    pub(crate) is_signed_in: bool,
    /// May they see sessions?
    pub(crate) has_sessions: bool,
    /// Are there files that they may see?
    pub(crate) has_files: bool,
}

impl Viewer {
    /// Is there anything for them?
    fn has(&self, place: Place) -> bool {
        match place {
            Place::Sessions => self.has_sessions,
            Place::Files => self.has_files,
            Place::Locks | Place::Cluster | Place::Take => true,
        }
    }
}

/// A page that is being written.
pub(crate) struct Page {
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
    pub(crate) fn new(title: impl Into<String>, body: Markup) -> Self {
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

    /// Some words in the middle of nothing else.
    pub(crate) fn narrow(title: &str, body: Markup) -> Self {
        let body = html! { h1 { (Text(title)) } div.stack { (body) } };
        Self { is_narrow: true, ..Self::new(title, body) }
    }

    /// Where it is among the others.
    pub(crate) fn at(self, place: Place) -> Self {
        Self { place: Some(place), ..self }
    }

    /// Where its browser is told that something changed.
    pub(crate) fn live(self, url: impl Into<String>) -> Self {
        Self { live: Some(url.into()), ..self }
    }

    /// Where it is asked for again, if that is not where it was shown: a form leads to what cannot be asked for.
    pub(crate) fn here(self, url: impl Into<String>) -> Self {
        Self { here: Some(url.into()), ..self }
    }

    /// Its browser asks for it again this often, in milliseconds, also if it is told of nothing.
    pub(crate) fn pace(self, ms: u32) -> Self {
        Self { pace: Some(ms), ..self }
    }

    /// Goes to this path of ours by itself.
    pub(crate) fn refresh(self, seconds: u32, to: &str) -> Self {
        Self { refresh: Some((seconds, to.into())), ..self }
    }

    pub(crate) fn status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    pub(crate) fn answer(self, viewer: &Viewer) -> Response {
        let status = self.status;
        let mut answer = (status, self.render(viewer).into_string()).into_response();
        let headers = answer.headers_mut();
        for (name, value) in [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            (header::CACHE_CONTROL, "no-store"),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::REFERRER_POLICY, "same-origin"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            // What is at `/` depends on it.
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
                        // A page that comes anew while somebody reads it is for those without the module only.
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

/// Has the browser go to this path.
fn again(seconds: u32, to: &str) -> Markup {
    let to = escape(to);
    PreEscaped(format!("<meta http-equiv=\"refresh\" content=\"{seconds};url={to}\">"))
}

/// The ways to the other pages, and out.
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

/// The title of a page, what is said of it, and where it is said whether it is live.
pub(crate) fn title(title: Markup, about: Markup) -> Markup {
    html! {
        div.title {
            h1 { (title) }
            p.sub data-part="about" { (about) }
            span #live role="status" {}
        }
    }
}
