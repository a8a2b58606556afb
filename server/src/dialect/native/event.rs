//! What happens to locks, as Server-Sent Events.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use leasehold_api::{Event, EventKind, Gap};
use leasehold_core::{Ending, What};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tokio_stream::{Stream, StreamExt};

use super::error::Refusal;
use super::extract::{Namespace, Params};
use crate::app::App;
use crate::engine::{self, Since};
use crate::http::answers::Sending;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WatchParams {
    /// Only locks whose name begins with this.
    #[serde(default)]
    prefix: String,
    /// The id of the last event seen; `Last-Event-ID` wins over it.
    since: Option<String>,
}

pub(super) async fn watch(
    State(app): State<App>,
    Namespace(namespace): Namespace,
    headers: HeaderMap,
    Params(params): Params<WatchParams>,
) -> Result<Response, Refusal> {
    // Whatever is no text is no id either.
    let last_seen = headers.get("last-event-id").map(|id| id.to_str().unwrap_or("?"));
    let since = last_seen.or(params.since.as_deref()).map(parse_id).transpose()?;
    let sending = app.answers.stream()?;
    let generation = app.engine.events().generation();
    let Since { missed, gap, live } = app.engine.events().since(since);
    let gap = tokio_stream::iter(gap.map(|reason| Missed::Gap(reason.into())));
    let missed = tokio_stream::iter(missed.into_iter().map(Missed::Event));
    let live = BroadcastStream::new(live).map(|next| match next {
        Ok(event) => Missed::Event(event),
        Err(BroadcastStreamRecvError::Lagged(n)) => {
            Missed::Gap(format!("too slow: {n} events missed"))
        }
    });
    let is_seen = move |event: &engine::Event| {
        event.fact.lock.namespace == namespace && event.fact.lock.name.starts_with(&params.prefix)
    };
    let events = gap.chain(missed).chain(live).filter_map(move |next| match next {
        Missed::Event(event) => is_seen(&event).then(|| render(generation, &event)),
        Missed::Gap(reason) => Some(SseEvent::default().event("gap").json_data(Gap { reason })),
    });
    let engine = app.engine.clone();
    let stopped = Box::pin(async move { engine.stopped().await });
    let events = UntilStopped { events: Box::pin(events), stopped, _sending: sending };
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

enum Missed {
    Event(Arc<engine::Event>),
    Gap(String),
}

type Rendered = Result<SseEvent, axum::Error>;

/// A stream that ends when the engine does, so that watching does not hold up a shutdown.
struct UntilStopped<S> {
    events: Pin<Box<S>>,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    _sending: Sending,
}

impl<S: Stream<Item = Rendered>> Stream for UntilStopped<S> {
    type Item = Rendered;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Rendered>> {
        if self.stopped.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        self.events.as_mut().poll_next(context)
    }
}

fn render(generation: u64, event: &engine::Event) -> Rendered {
    let fact = &event.fact;
    let kind = kind(fact.what);
    let name = serde_json::to_value(kind).map_err(axum::Error::new)?;
    SseEvent::default()
        .id(format!("{generation:x}-{}", event.number))
        .event(name.as_str().unwrap_or_default())
        .json_data(Event {
            kind,
            namespace: fact.lock.namespace.to_string(),
            lock_name: fact.lock.name.to_string(),
            owner_id: fact.owner.instance.to_string(),
            fencing_token: fact.token.get(),
            at_ms: event.at_ms,
            waited_ms: fact.waited.as_millis(),
            held_ms: fact.held.as_millis(),
            reason: fact.reason.as_deref().map(Into::into),
        })
}

fn kind(what: What) -> EventKind {
    match what {
        What::Queued => EventKind::Queued,
        What::Granted => EventKind::Granted,
        What::Ended(Ending::Released) => EventKind::Released,
        What::Ended(Ending::Expired) => EventKind::Expired,
        What::Ended(Ending::Revoked) => EventKind::Revoked,
        What::WaitEnded(_) => EventKind::WaitEnded,
    }
}

fn parse_id(id: &str) -> Result<(u64, u64), Refusal> {
    let parsed = id.split_once('-').filter(|_| !id.contains('+'));
    let parsed = parsed.and_then(|(generation, number)| {
        Some((u64::from_str_radix(generation, 16).ok()?, number.parse().ok()?))
    });
    parsed.ok_or_else(|| Refusal::invalid("since or Last-Event-ID: is not an event id"))
}
