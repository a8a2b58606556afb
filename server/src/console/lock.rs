//! The page of one lock: holders, queue, history, and the form to revoke it.

use axum::http::StatusCode;
use axum::response::Response;
use leasehold_auth::Right;
use leasehold_core::{LeaseView, LockKey, LockView, Mode, Phase, Timestamp};
use leasehold_engine::ReadLock;
use maud::{Markup, html};
use serde::Deserialize;

use super::locks::{owner, reserved, standing, time_left};
use super::visit::{Trouble, Visit, address, of_lock};
use super::{reason, timeline};
use crate::dialect;
use crate::http::page::{Lines, Page, Place, Text, ago, count, day, left, name, title};

/// Maximum number of waiters that the page shows.
const QUEUE_SHOWN: usize = 100;

#[derive(Deserialize)]
struct Params {
    namespace: String,
    name: String,
    /// The history is shown from before this event on.
    #[serde(default)]
    before: String,
    /// The id of a notice to show.
    #[serde(default)]
    notice: String,
}

/// The notice above the lock, and the text in the form.
#[derive(Default)]
struct Above<'a> {
    notice: Markup,
    /// The reason that the user has entered.
    typed: &'a str,
}

pub(super) async fn show(visit: Visit) -> Response {
    visit.answer(page(&visit).await)
}

async fn page(visit: &Visit) -> Result<Page, Trouble> {
    visit.check_known()?;
    let params: Params = visit.params()?;
    let key = LockKey::new(params.namespace, params.name);
    let above = Above { notice: visit.notice(&params.notice), typed: "" };
    shown(visit, &key, &params.before, above).await
}

/// Shows the lock again after revoking failed, with the error and the reason that the user has entered.
pub(super) async fn again(
    visit: &Visit,
    key: &LockKey,
    trouble: Trouble,
    typed: &str,
) -> Result<Page, Trouble> {
    let (status, why) = match trouble {
        Trouble::Wrong(why) => (StatusCode::BAD_REQUEST, why),
        Trouble::Changed(why) => (StatusCode::CONFLICT, why),
        other => return Err(other),
    };
    let notice = html! { p.note.bad role="alert" { (Text(&why)) } };
    let page = shown(visit, key, "", Above { notice, typed }).await?;
    Ok(page.status(status).here(of_lock(&key.namespace, &key.name)))
}

async fn shown(
    visit: &Visit,
    key: &LockKey,
    before: &str,
    above: Above<'_>,
) -> Result<Page, Trouble> {
    let view = look(visit, key, QUEUE_SHOWN).await?;
    let past = timeline::show(visit, key, before).await?;
    let now = visit.app.engine.now();
    let about = html! {
        "in namespace " (name(&key.namespace)) ", latest fencing token " (view.last_token.get())
    };
    let body = html! {
        p.crumb { a href="/console" { "Locks" } " / " (name(&key.namespace)) }
        (title(html! { (name(&key.name)) }, about))
        (above.notice)
        div.columns {
            div {
                section.card data-part="holders" aria-labelledby="holders" { (holders(visit, &view, now)) }
                section.card data-part="queue" aria-labelledby="queue" { (queue(&view, now)) }
                (revocation(visit, key, &view, above.typed))
            }
            section.card data-part="history" aria-labelledby="history" { (past) }
        }
    };
    let live = address("/console/live", &[("namespace", &key.namespace), ("name", &key.name)]);
    Ok(Page::new(&*key.name, body).at(Place::Locks).live(live))
}

/// Reads the current state of the lock.
pub(super) async fn look(
    visit: &Visit,
    key: &LockKey,
    n_queue_max: usize,
) -> Result<Box<LockView>, Trouble> {
    visit.app.limits.check_key(key)?;
    let ask = visit.caller.permit(ReadLock { key: key.clone(), n_queue_max })?;
    Ok(visit.app.engine.ask(ask).await??)
}

fn holders(visit: &Visit, view: &LockView, now: Timestamp) -> Markup {
    let n_hidden = view.n_holders.saturating_sub(view.holders.len());
    html! {
        h2 #holders { @if view.n_holders > 1 { (count(view.n_holders)) " holders" } @else { "Holder" } }
        div.stack {
            p.big { (standing(view, now)) }
            @if let Some(lapse) = reserved(view, now) {
                dl.facts {
                    dt { "Reserved for" } dd { (owner(lapse.dialect, &lapse.owner)) }
                    dt { "Grace left" } dd { (time_left(None, Some(lapse), now)) }
                    dt { "Expired" } dd { (day(visit.app.engine.wall_ms_of(lapse.expired_at))) " UTC" }
                }
            } @else if let Some(lapse) = view.lapse.as_ref().filter(|_| view.holders.is_empty()) {
                p.dim { "Last held by " (owner(lapse.dialect, &lapse.owner)) ", whose lease expired." }
            }
            @for lease in &view.holders { (holder(visit, lease, now)) }
            @if n_hidden > 0 { p.dim { "and " (count(n_hidden)) " more" } }
        }
    }
}

fn holder(visit: &Visit, lease: &LeaseView, now: Timestamp) -> Markup {
    let mode = match lease.mode {
        Mode::Exclusive => "exclusive".into(),
        Mode::Shared => "shared".into(),
        Mode::Counted(limit) => format!("one of up to {limit}"),
    };
    let waited = lease.granted_at.since(lease.created_at).as_millis();
    html! {
        dl.facts {
            dt { "Held by" } dd.big { (owner(lease.dialect, &lease.owner)) }
            dt { "Fencing token" } dd { (lease.token.get()) }
            dt { "Time left" } dd { (time_left(Some(lease), None, now)) }
            dt { "Held for" }
            dd {
                (ago(now.since(lease.granted_at).as_millis()))
                span.dim { ", since " (day(visit.app.engine.wall_ms_of(lease.granted_at))) " UTC" }
                @if waited >= 1000 { span.dim { ", after waiting " (crate::http::page::length(waited)) } }
            }
            dt { "Mode" } dd { (mode) }
            dt { "Protocol" } dd { span.tag { (dialect::name_of(lease.dialect)) } }
            @if lease.grace.as_millis() > 0 {
                dt { "Grace" } dd { (crate::http::page::length(lease.grace.as_millis())) " after it expires" }
            }
            @if let Some(metadata) = &lease.metadata {
                dt { "Metadata" } dd { pre.value tabindex="0" { (Lines(&written(lease.dialect, metadata))) } }
            }
        }
    }
}

/// Formats metadata: JSON with indentation, anything else as text.
fn written(dialect: leasehold_core::Dialect, metadata: &[u8]) -> String {
    let metadata = &dialect::shown_metadata(dialect, metadata);
    let parsed = serde_json::from_slice::<serde_json::Value>(metadata);
    let written = parsed.and_then(|value| serde_json::to_string_pretty(&value));
    written.unwrap_or_else(|_| String::from_utf8_lossy(metadata).into_owned())
}

fn queue(view: &LockView, now: Timestamp) -> Markup {
    let n_hidden = view.n_waiting.saturating_sub(view.queue.len());
    html! {
        h2 #queue { "Queue" @if view.n_waiting > 0 { span.dim { " · " (count(view.n_waiting)) " waiting" } } }
        @if view.queue.is_empty() {
            p.dim { "No client is waiting for it." }
        } @else {
            div.table {
                table {
                    caption.unseen { "Waiters, in queue order" }
                    thead {
                        tr {
                            th scope="col" { "Position" } th scope="col" { "Owner" } th scope="col" { "Waiting for" }
                            th scope="col" { "Waits until" } th scope="col" { "Protocol" }
                        }
                    }
                    tbody { @for (n, lease) in view.queue.iter().enumerate() { (waiter(n + 1, lease, now)) } }
                }
            }
            @if n_hidden > 0 { p.dim { "and " (count(n_hidden)) " more" } }
        }
    }
}

fn waiter(position: usize, lease: &LeaseView, now: Timestamp) -> Markup {
    html! {
        tr data-key=(lease.id.number.0) {
            td data-label="position" { (position) }
            th scope="row" {
                (owner(lease.dialect, &lease.owner))
                @if lease.phase == Phase::Parked { " " span.tag { "away" } }
            }
            td.keep data-label="waits" { (ago(now.since(lease.created_at).as_millis())) }
            td.keep data-label="gives up in" {
                @if let Some(ms) = lease.remaining(now) { (left(ms.as_millis(), None)) } @else { "never" }
            }
            td { span.tag { (dialect::name_of(lease.dialect)) } }
        }
    }
}

/// Renders the form to revoke the lock. It names the current holders, so that it cannot revoke the lock of a later
/// holder.
fn revocation(visit: &Visit, key: &LockKey, view: &LockView, typed: &str) -> Markup {
    let may = visit.caller.check(Right::Revoke, key);
    let n_kept = view.n_holders.saturating_sub(view.holders.len());
    // The lock is named in the URL, because form fields cannot transport every character that a name can contain.
    let action =
        address("/console/lock/revoke", &[("namespace", &key.namespace), ("name", &key.name)]);
    html! {
        section.card data-part="revoke" data-kept=[reason::filled(typed).map(|_| "")] aria-labelledby="revoke" {
            h2 #revoke { "Revoke" }
            @if view.holders.is_empty() {
                p.dim { "The lock is not held." }
            } @else if let Err(denied) = may {
                p.dim { (Text(&denied.to_string())) }
            } @else {
                form.stack method="post" action=(Text(&action)) {
                    p {
                        "Revokes the lock from " (owner(view.holders[0].dialect, &view.holders[0].owner))
                        @if view.holders.len() > 1 { " and " (count(view.holders.len() - 1)) " more" }
                        " at once. "
                        @if n_kept > 0 {
                            "Only the holders on this page are affected: " (count(n_kept)) " others keep it."
                        } @else {
                            "The next waiter gets the lock with a higher fencing token. A resource that checks tokens \
                             rejects late writes."
                        }
                    }
                    @for lease in &view.holders { input type="hidden" name="token" value=(lease.token.get()); }
                    (reason::field(&visit.app, typed))
                    button.bad { "Revoke" }
                }
            }
        }
    }
}
