//! The page that shows how to acquire a lock, with code examples for each language.

use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::snippet::{LANGUAGES, Wish};
use super::visit::{Trouble, Visit};
use crate::http::page::{Lines, Page, Place, Text, title};

/// Maximum TTL in an example, in seconds.
const TTL_S_MAX: u64 = 86_400;
/// Maximum length of a name or namespace in an example, in bytes.
const NAME_BYTES_MAX: usize = 1024;

#[derive(Deserialize)]
#[serde(default)]
struct Params {
    namespace: String,
    name: String,
    ttl: String,
}

impl Default for Params {
    fn default() -> Self {
        Self { namespace: "default".into(), name: "nightly".into(), ttl: "30".into() }
    }
}

pub(super) async fn show(visit: Visit) -> Response {
    visit.answer(page(&visit))
}

fn page(visit: &Visit) -> Result<Page, Trouble> {
    visit.check_known()?;
    let params: Params = visit.params()?;
    let wish = wish(visit, &params)?;
    let about = html! { "Paste one of these. Each acquires the lock, waits for it if necessary, and releases it." };
    let body = html! {
        (title(html! { "Take a lock" }, about))
        (form(&params))
        @for (language, write) in LANGUAGES { (snippet(language, &write(&wish))) }
    };
    Ok(Page::new("Take a lock", body).at(Place::Take))
}

fn wish<'a>(visit: &'a Visit, params: &'a Params) -> Result<Wish<'a>, Trouble> {
    let wrong = |why: &str| Err(Trouble::Wrong(why.into()));
    for (what, text) in [("name", &params.name), ("namespace", &params.namespace)] {
        if text.is_empty() || text.len() > NAME_BYTES_MAX {
            return wrong(&format!("{what}: must have from 1 to {NAME_BYTES_MAX} bytes"));
        }
    }
    match params.ttl.parse() {
        Ok(ttl_s) if (1..=TTL_S_MAX).contains(&ttl_s) => Ok(Wish {
            url: &visit.origin,
            namespace: &params.namespace,
            name: &params.name,
            ttl_s,
            has_key: visit.caller.is_asked(),
        }),
        _ => wrong(&format!("ttl: must be a number of seconds from 1 to {TTL_S_MAX}")),
    }
}

fn form(params: &Params) -> Markup {
    html! {
        form.find method="get" action="/console/take" {
            label.wide { "Name" input name="name" value=(Text(&params.name)) required autocomplete="off"; }
            label { "Namespace" input name="namespace" value=(Text(&params.namespace)) required autocomplete="off"; }
            label {
                "Seconds until it expires"
                input name="ttl" inputmode="numeric" value=(Text(&params.ttl)) required;
            }
            button.main { "Write" }
        }
    }
}

fn snippet(language: &str, text: &str) -> Markup {
    html! {
        section.card.snippet {
            header { h2 { (language) } }
            pre tabindex="0" aria-label={ "Example for " (language) } { (Lines(text)) }
        }
    }
}
