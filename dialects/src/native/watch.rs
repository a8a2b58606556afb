//! Watches one lease for its holder: a stream that reports the end of the lease.

use std::convert::Infallible;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use leasehold_api::{Code, Gap, LeaseEnd, WatchLeaseRequest, WatchedLease};
use leasehold_auth::Caller;
use leasehold_core::{Ending, Fact, What};
use leasehold_engine::{WatchLease, Watched};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};

use super::error::Refusal;
use super::extract::{Body, Lock};
use super::lock;
use super::stale::Staleness;
use super::wire;
use crate::Dialect;
use crate::app::App;
use crate::http::answers::Sending;
use leasehold_auth::shares::Client;

pub(super) async fn watch(
    State(app): State<App>,
    Lock(key): Lock,
    caller: Caller,
    client: Client,
    Body(request): Body<WatchLeaseRequest>,
) -> Result<Response, Refusal> {
    let WatchLeaseRequest { owner_id, lease_id, fencing_token } = &request;
    let proof = lock::proof(&caller, key.clone(), owner_id, lease_id, *fencing_token);
    let proof = proof.ok_or_else(not_held)?;
    let sending = app.answers.stream(&client)?;
    let watch = WatchLease { proof, dialect: Dialect::Native.number() };
    let Watched { lease, ended } = match app.engine.ask(caller.own(watch)).await? {
        Ok(watched) => watched,
        Err(rejection) if lock::is_not_theirs(&rejection) => return Err(not_held()),
        Err(rejection) => return Err(rejection.into()),
    };
    let watched = WatchedLease {
        lock_name: key.name.to_string(),
        fencing_token: lease.token.get(),
        lease_expiry_ms: wire::expiry_ms(&app, lease.deadline),
        expires_in_ms: lease.remaining(app.engine.now()).map(leasehold_core::Span::as_millis),
    };
    let first = SseEvent::default().event("watching").json_data(watched);
    let first = first.map_err(|_| not_held())?;
    let wall = app.clone();
    let last = WatchStream::new(ended).filter_map(|fact| fact).map(move |fact| end(&wall, &fact));
    let events = tokio_stream::once(first).chain(last.take(1));
    let staleness = Staleness::of(&app.engine);
    let engine = app.engine.clone();
    let stopped = Box::pin(async move {
        // Watching one's own lease needs no right, but the caller's credential must stay valid.
        tokio::select! {
            () = engine.stopped() => {}
            _ = caller.denied(engine.clock(), |_| Ok(())) => {}
        }
    });
    let events = Box::pin(events);
    let events = Until { events, staleness, is_over: false, stopped, _sending: sending };
    let events = events.map(Ok::<_, Infallible>);
    let mut response = Sse::new(events).keep_alive(KeepAlive::default()).into_response();
    // The default header of `Sse` is `no-cache`, with which a cache can still store the response.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn end(app: &App, fact: &Fact) -> SseEvent {
    let how = match fact.what {
        What::Ended(Ending::Released) => "released",
        What::Ended(Ending::Revoked) => "revoked",
        _ => "expired",
    };
    let end = LeaseEnd {
        lock_name: fact.lock.name.to_string(),
        fencing_token: fact.token.get(),
        how: how.into(),
        reason: fact.reason.as_deref().map(Into::into),
        at_ms: app.engine.wall_ms_of(fact.at),
    };
    SseEvent::default().event("ended").json_data(end).unwrap_or_default()
}

fn not_held() -> Refusal {
    let why = "lease not found, expired, or owned by another client";
    Refusal::new(StatusCode::CONFLICT, Code::LeaseNotHeld, why)
}

/// Returns the last event of a server that might miss the end of the lease, because it cannot reach its store. The
/// client then watches the lease at the leader.
fn stale() -> SseEvent {
    let reason = "this server cannot reach the store: watch the lease at another server";
    SseEvent::default().event("stale").json_data(Gap { reason: reason.into() }).unwrap_or_default()
}

/// A stream that ends when the engine stops, so that open streams do not delay a shutdown, and when the server cannot
/// reach its store.
struct Until<S> {
    events: std::pin::Pin<Box<S>>,
    staleness: Staleness,
    is_over: bool,
    stopped: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
    _sending: Sending,
}

impl<S: Stream<Item = SseEvent>> Stream for Until<S> {
    type Item = SseEvent;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<SseEvent>> {
        if self.is_over || self.stopped.as_mut().poll(context).is_ready() {
            return std::task::Poll::Ready(None);
        }
        let next = self.events.as_mut().poll_next(context);
        if next.is_ready() || self.staleness.poll_next(context).is_pending() {
            return next;
        }
        self.is_over = true;
        std::task::Poll::Ready(Some(stale()))
    }
}
