//! A page with all locks, for people. A browser that does not run the module for live pages reloads it every two
//! seconds.

use axum::extract::State;
use axum::http::request::Parts;
use axum::response::Response;
use leasehold_auth::{Caller, Right, View};
use leasehold_core::{LockKey, LockView, Timestamp};
use leasehold_engine::{Filter, ListLocks, LockPage};
use maud::{Markup, html};

use super::error::Refusal;
use super::wire::{self, Status};
use crate::app::App;
use crate::grip;
use crate::http::media::wants_page;
use crate::http::page::{Page, Shape, Text, name, state, title};
use crate::http::request::Arrival;

pub(super) const HTML: &str = "text/html; charset=utf-8";
/// Maximum locks on the page. The console shows more, in pages.
const SHOWN_MAX: usize = 200;
/// How often a browser reloads the page, in seconds.
const REFRESH_S: u32 = 2;

pub(super) async fn show(State(app): State<App>, parts: Parts) -> Result<Response, Refusal> {
    let caller = Arrival::of(&parts).caller.clone();
    // Programs get the error in this dialect's format.
    let may = caller.check_somewhere(Right::Read, Some(&app.dialect.sticky.namespace));
    if wants_page(&parts.method, &parts.headers)
        && let Err(denied) = may
    {
        return Ok((app.show_page)(&app, &parts, Err(denied)));
    }
    let (mut locks, is_all) = locks(&app, &caller).await?;
    locks.sort_unstable_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    let now = app.engine.now();
    let namespace = &app.dialect.sticky.namespace;
    let about = html! { "Namespace " (Text(namespace)) ", at " (wire::shown(&app, now)) "." };
    let body = html! {
        (title(html! { "Locks" }, about))
        div data-part="locks" {
            (table(&app, &locks, now))
            @if !is_all { p.dim { "There are more locks than this page shows." } }
        }
        p { a href="/console" { "All locks, in the console" } }
    };
    let page = Page::new("Locks", body).live("/console/live").refresh(REFRESH_S, "/lock/page");
    Ok((app.show_page)(&app, &parts, Ok(page)))
}

/// Returns the locks of this dialect's namespace, and whether they are all shown.
async fn locks(app: &App, caller: &Caller) -> Result<(Vec<(LockKey, LockView)>, bool), Refusal> {
    let mut filter = Filter {
        namespace: (*app.dialect.sticky.namespace).into(),
        prefix: "".into(),
        owner: None,
        standing: None,
        n_max: SHOWN_MAX,
        after: None,
        view: View::default(),
        leave_out: grip::leave_out(app, &app.dialect.sticky.namespace),
    };
    let mut locks = Vec::new();
    loop {
        filter.n_max = SHOWN_MAX - locks.len();
        let list = caller.permit(ListLocks(filter.clone()))?;
        let LockPage { locks: found, next, .. } = app.engine.ask(list).await?;
        locks.extend(found);
        match next {
            None => return Ok((locks, true)),
            Some(_) if locks.len() >= SHOWN_MAX => return Ok((locks, false)),
            next @ Some(_) => filter.after = next,
        }
    }
}

fn table(app: &App, locks: &[(LockKey, LockView)], now: Timestamp) -> Markup {
    if locks.is_empty() {
        return html! { div.card.empty { "There are no locks yet." } };
    }
    html! {
        div.table {
            table {
                caption.unseen { "Locks" }
                thead {
                    tr {
                        th scope="col" { "Job" } th scope="col" { "State" } th scope="col" { "Holder" }
                        th scope="col" { "Until" } th scope="col" { "Waiting" }
                    }
                }
                tbody {
                    @for (key, view) in locks { (row(&wire::status(app, &key.name, view, now), view, now)) }
                }
            }
        }
    }
}

fn row(status: &Status<'_>, view: &LockView, now: Timestamp) -> Markup {
    let in_grace = view.lapse.as_ref().is_some_and(|lapse| now < lapse.grace_until);
    let (stand, job, holder, until) = match status {
        Status::Known { job, holder, is_expired: true, grace_until, .. } => {
            (if in_grace { "grace" } else { "expired" }, job, &**holder, grace_until.as_deref())
        }
        Status::Known { job, holder, expires_at, .. } => {
            ("held", job, &**holder, Some(expires_at.as_deref().unwrap_or("until released")))
        }
        Status::Free { job, .. } => ("free", job, "", None),
    };
    let shape = match stand {
        "held" => Shape::Full,
        "grace" => Shape::Half,
        _ => Shape::Ring,
    };
    html! {
        tr class=(stand) {
            th scope="row" { (name(job)) }
            td { (state(stand, shape, stand)) }
            td data-label="held by" { (name(holder)) }
            td.keep data-label="until" { (until.unwrap_or_default()) }
            td data-label="waiting" { (view.n_waiting) }
        }
    }
}
