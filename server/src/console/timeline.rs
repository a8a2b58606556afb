//! The history of a lock, newest event first.

use leasehold_api::EventKind;
use leasehold_core::LockKey;
use leasehold_engine::{PastEvents, ReadHistory};
use leasehold_store::{Cursor, Event};
use maud::{Markup, html};

use super::visit::{Trouble, Visit, address};
use crate::dialect::{self, native};
use crate::http::page::{Shape, Text, length, moment, name};
use leasehold_store::history::Query;

/// Events per page.
const SHOWN: usize = 30;

pub(super) async fn show(visit: &Visit, key: &LockKey, before: &str) -> Result<Markup, Trouble> {
    let generation = visit.app.engine.generation();
    let before = match before {
        "" => None,
        text => {
            let cursor = text.parse::<Cursor>().ok().filter(|it| it.generation == generation);
            let wrong = || Trouble::Wrong("before: not an event of this server".into());
            Some(cursor.ok_or_else(wrong)?.id)
        }
    };
    let query = Query {
        namespace: Some(key.namespace.to_string()),
        lock: Some(key.name.to_string()),
        ..Query::default()
    };
    let asked = visit.caller.permit(ReadHistory { query, ..ReadHistory::default() })?;
    let view = asked.view.clone();
    let found = visit.app.archive.find(&visit.app.engine, asked, before, SHOWN).await;
    let found = found.map_err(Trouble::Failed)?;
    let PastEvents { events, before: next, .. } = found;
    let older = next.map(|id| {
        let cursor = Cursor { generation, id }.to_string();
        address(
            "/console/lock",
            &[("namespace", &key.namespace), ("name", &key.name), ("before", &cursor)],
        )
    });
    let shows = |lock: &LockKey| view.shows(lock);
    Ok(html! {
        h2 #history { "History" }
        @if events.is_empty() {
            p.dim { "No events of this lock are known." }
        } @else {
            ol.timeline { @for event in &events { (entry(event, shows)) } }
        }
        @if let Some(older) = older { p { a href=(Text(&older)) { "Older" } } }
    })
}

fn entry(event: &Event, shows: impl Fn(&LockKey) -> bool) -> Markup {
    let told = native::told(event, shows);
    let (class, shape, did) = match told.kind {
        EventKind::Queued => ("queued", Shape::Hourglass, "joined the queue"),
        EventKind::Granted => ("granted", Shape::Full, "got the lock"),
        EventKind::Released => ("released", Shape::Ring, "released it"),
        EventKind::Expired => ("expired", Shape::Half, "let it expire"),
        EventKind::Revoked => ("revoked", Shape::Cross, "was revoked"),
        EventKind::WaitEnded => ("wait_ended", Shape::Ring, "left the queue"),
        EventKind::HeldLong => ("held_long", Shape::Mark, "has held it for long"),
        EventKind::WaitedLong => ("waited_long", Shape::Mark, "has waited for long"),
        EventKind::DeadlockSuspected => {
            ("deadlock_suspected", Shape::Mark, "may be part of a deadlock")
        }
    };
    let (waited, held) = (told.waited_ms, told.held_ms);
    html! {
        li class=(class) {
            (shape.draw())
            (name(&told.owner_id)) " " (did)
            @if told.fencing_token > 0 { span.dim { ", token " (told.fencing_token) } }
            @if held >= 1000 { span.dim { ", held for " (length(held)) } }
            @else if waited >= 1000 { span.dim { ", after " (length(waited)) } }
            @if let Some(reason) = &told.reason { span { ": " (Text(reason)) } }
            " " span.tag { (dialect::name_of(event.fact.dialect)) }
            (moment(told.at_ms))
        }
    }
}
