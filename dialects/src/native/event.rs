//! The event stream: what happens to locks, as Server-Sent Events.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use leasehold_api::{Event, EventKind, Gap};
use leasehold_auth::{Caller, Right};
use leasehold_core::{Ending, LockKey, Note, What, trimmed};
use leasehold_engine::{Interest, Next, Reader};
use leasehold_store::{self as store, Cursor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, Sleep, sleep};
use tokio_stream::Stream;

use super::error::Refusal;
use super::extract::{Namespace, Params};
use super::stale::Staleness;
use crate::app::App;
use crate::http::answers::Sending;
use crate::owner;
use leasehold_auth::shares::Client;

/// Interval of keep-alive comments on an idle stream, so that proxies do not close it.
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(15);
const SIGN_OF_LIFE: &[u8] = b":\n\n";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WatchParams {
    /// Only locks whose name begins with this.
    #[serde(default)]
    prefix: String,
    /// Only this lock.
    lock: Option<String>,
    /// The id of the last event seen; the header `Last-Event-ID` takes precedence.
    since: Option<String>,
}

pub(super) async fn watch(
    State(app): State<App>,
    Namespace(namespace): Namespace,
    headers: HeaderMap,
    caller: Caller,
    client: Client,
    Params(params): Params<WatchParams>,
) -> Result<Response, Refusal> {
    // A header value that is not text cannot be an id; `?` makes parsing fail.
    let last_seen = headers.get("last-event-id").map(|id| id.to_str().unwrap_or("?"));
    let since = last_seen
        .or(params.since.as_deref())
        .map(|id| parse_id("since or Last-Event-ID", id))
        .transpose()?;
    let interest = match params.lock {
        Some(name) => {
            let key = LockKey { namespace: namespace.clone(), name: name.into() };
            app.limits.check_key(&key)?;
            Interest::Lock(key)
        }
        None => Interest::Namespace(namespace.clone()),
    };
    let watcher = caller.clone();
    let interest = caller.permit(interest)?;
    let sending = app.answers.stream(&client)?;
    if let Some(since) = since {
        app.engine.catch_up_to(since).await;
    }
    let reader = app.engine.follow(interest, since);
    let generation = app.engine.generation();
    let engine = app.engine.clone();
    let frames = EventBody {
        reader,
        generation,
        prefix: params.prefix,
        stopped: Box::pin(async move {
            let check = |now: &Caller| now.check_somewhere(Right::Read, Some(&namespace));
            tokio::select! {
                () = engine.stopped() => {}
                _ = watcher.denied(engine.clock(), check) => {}
            }
        }),
        caller,
        silence: Box::pin(sleep(SIGN_OF_LIFE_EVERY)),
        staleness: Staleness::of(&app.engine),
        _sending: sending,
    };
    let head = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((head, Body::from_stream(frames)).into_response())
}

/// The body of an event stream. It ends when the engine stops, so that open streams do not delay a shutdown, and when
/// the client loses the right to see any of the events.
struct EventBody {
    reader: Reader,
    caller: Caller,
    generation: u64,
    prefix: String,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    silence: Pin<Box<Sleep>>,
    staleness: Staleness,
    _sending: Sending,
}

impl Stream for EventBody {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.stopped.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        let frame = match self.poll_frame(context) {
            Poll::Ready(frame) => frame,
            Poll::Pending => match self.staleness.poll_next(context) {
                Poll::Ready((name, reason)) => frame(name, None, &Gap { reason: reason.into() }),
                Poll::Pending => {
                    std::task::ready!(self.silence.as_mut().poll(context));
                    Bytes::from_static(SIGN_OF_LIFE)
                }
            },
        };
        self.silence.as_mut().reset(Instant::now() + SIGN_OF_LIFE_EVERY);
        Poll::Ready(Some(Ok(frame)))
    }
}

impl EventBody {
    /// Returns whether the client is allowed to see a lock, by the policy in force now and not the one when it
    /// connected.
    fn is_seen(&self, lock: &LockKey) -> bool {
        !self.caller.is_asked() || self.caller.by_now().check(Right::Read, lock).is_ok()
    }

    /// Returns the bytes of an event. They are rendered once and shared by all streams, except for a suspected
    /// deadlock: it names other locks, which not every client is allowed to see.
    fn frame(&self, event: &store::Event) -> Bytes {
        let generation = self.generation;
        if self.caller.is_asked() && is_suspicion(event.fact.what) {
            return render(generation, event, |lock| self.is_seen(lock));
        }
        event.frame(|event| render(generation, event, |_| true))
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Bytes> {
        loop {
            match std::task::ready!(self.reader.poll_next(context)) {
                Next::Event(event) if !self.is_seen(&event.fact.lock) => {}
                Next::Event(event) if event.fact.lock.name.starts_with(&self.prefix) => {
                    return Poll::Ready(self.frame(&event));
                }
                Next::Event(_) => {}
                Next::Gap(reason) => return Poll::Ready(frame("gap", None, &Gap { reason })),
            }
        }
    }
}

fn is_suspicion(what: What) -> bool {
    what == What::Noted(Note::DeadlockSuspected)
}

fn render(generation: u64, event: &store::Event, shows: impl Fn(&LockKey) -> bool) -> Bytes {
    let (_, name) = kind(event.fact.what);
    frame(name, Some(Cursor { generation, id: event.id }), &wire(event, shows))
}

/// Converts an event to its API type. `shows` decides which locks the description of a suspected deadlock can name.
pub fn wire(event: &store::Event, shows: impl Fn(&LockKey) -> bool) -> Event {
    let fact = &event.fact;
    let reason = fact.reason.as_deref();
    let shows = |name: &str| shows(&LockKey::new(fact.lock.namespace.clone(), name));
    let reason = match is_suspicion(fact.what) {
        true => reason.and_then(|circle| trimmed(circle, shows)),
        false => reason.map(Into::into),
    };
    Event {
        kind: kind(fact.what).0,
        namespace: fact.lock.namespace.to_string(),
        lock_name: fact.lock.name.to_string(),
        owner_id: owner::shown(fact.dialect, &fact.owner).into(),
        principal: super::wire::principal(&fact.owner),
        fencing_token: fact.token.get(),
        at_ms: event.at_ms,
        waited_ms: fact.waited.as_millis(),
        held_ms: fact.held.as_millis(),
        reason,
    }
}

/// Returns an event as the JSON body of a webhook call. It includes the event's id, so that the receiver can recognize
/// duplicates.
pub fn note(generation: u64, event: &store::Event) -> Vec<u8> {
    #[derive(Serialize)]
    struct WebhookNote {
        id: String,
        #[serde(flatten)]
        event: Event,
    }
    let id = Cursor { generation, id: event.id }.to_string();
    // Serializing text and numbers cannot fail.
    serde_json::to_vec(&WebhookNote { id, event: wire(event, |_| true) }).unwrap_or_default()
}

/// Formats one Server-Sent Event. The data fits on one line, because JSON escapes line breaks.
fn frame(name: &str, id: Option<Cursor>, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_default();
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    format!("{id}event: {name}\ndata: {data}\n\n").into()
}

/// Returns the API type and the Server-Sent Events name of an event.
fn kind(what: What) -> (EventKind, &'static str) {
    match what {
        What::Queued => (EventKind::Queued, "queued"),
        What::Granted => (EventKind::Granted, "granted"),
        What::Ended(Ending::Released) => (EventKind::Released, "released"),
        What::Ended(Ending::Expired) => (EventKind::Expired, "expired"),
        What::Ended(Ending::Revoked) => (EventKind::Revoked, "revoked"),
        What::WaitEnded(_) => (EventKind::WaitEnded, "wait_ended"),
        What::Noted(Note::HeldLong) => (EventKind::HeldLong, "held_long"),
        What::Noted(Note::WaitedLong) => (EventKind::WaitedLong, "waited_long"),
        What::Noted(Note::DeadlockSuspected) => {
            (EventKind::DeadlockSuspected, "deadlock_suspected")
        }
    }
}

/// Parses an event id from the client. `what` names the parameter, for the error message.
pub(super) fn parse_id(what: &str, id: &str) -> Result<Cursor, Refusal> {
    id.parse().map_err(|()| Refusal::invalid(format!("{what}: is not an event id")))
}
