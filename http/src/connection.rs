//! Serves one connection, from its first byte to its last.
//!
//! There are time limits for its first request and for the time between requests, however slowly its bytes arrive.
//! Requests in progress, such as long polls and event streams, continue for as long as the client is connected.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Handler;
use super::Options;
use super::activity::{Activity, Doing};
use super::aside::Aside;
use super::conversation::FOREVER;
use super::intake::Counted;
use super::opening::Opened;
use super::outgoing::Outgoing;
use super::places::{Place, Places};
use super::streams::{Runner, Stream};
use super::tls::Demand;
use super::tracked::{Grant, Large, Tracked};
use super::wire::Wire;
use crate::request::{Answer, Visitor};

/// How long requests are still answered after the client has closed its sending side. It might read the responses, but
/// it does not wait for locks.
const CLOSED_PATIENCE: Duration = Duration::from_millis(10);
/// How long clients whose certificate is no longer trusted have to read the error.
const DISTRUSTED_PATIENCE: Duration = Duration::from_secs(1);
/// Minimum read buffer of HTTP/1.
pub(super) const HEAD_BYTES_MIN: usize = 8 * 1024;
/// Maximum bytes of all headers of an HTTP/2 request, as HTTP/2 counts them.
const HTTP2_HEADERS_BYTES_MAX: u32 = 16 * 1024;
/// Maximum bytes of all headers of a request from another server, which adds headers to those of the client.
const PEER_HEADERS_BYTES_MAX: u32 = 1 << 20;
/// How often servers of a cluster check whether the other end of their connection is still there.
pub const PING_EVERY: Duration = Duration::from_secs(5);
/// Maximum concurrent requests on one connection.
const STREAMS_PER_CONNECTION: u32 = 256;

/// Maximum lifetime of a restricted connection, in multiples of `restricted-timeout`. HTTP ends such a connection after
/// its first response, so this limits Redis connections.
const RESTRICTED_TIMEOUTS_MAX: u32 = 5;
/// Bytes of request bodies that an HTTP/2 client can send before the server reads them.
const WINDOW_BYTES: u32 = 64 * 1024;
/// Maximum bytes of one HTTP/2 response that wait for the connection.
const SEND_BYTES_MAX: usize = 64 * 1024;

/// Serves the connection until it ends, or until `stop` is set and no request is in progress.
pub(super) async fn serve<H: Handler>(
    opened: Opened,
    place: Place,
    handler: H,
    options: &Options,
    stop: watch::Receiver<bool>,
) {
    let wire = opened.line.wire().clone();
    let outgoing = opened.line.outgoing().clone();
    let activity = &place.activity;
    let ended = talk(&wire, opened, &place, handler, options, stop).await;
    outgoing.over();
    let is_answered = match ended {
        ConnectionEnd::Done => activity.has_unread(),
        ConnectionEnd::Refused => true,
        ConnectionEnd::GivenUp => false,
    };
    let lingering = is_answered.then(|| place.leave(&wire)).flatten();
    if let Some(lingering) = lingering {
        lingering.finish().await;
    }
}

enum ConnectionEnd {
    /// The connection ended normally: everything was sent, or the client disconnected.
    Done,
    /// The client sent an invalid request and got an error.
    Refused,
    /// The server closed it because of a time limit or a shortage of connections.
    GivenUp,
}

async fn talk<H: Handler>(
    wire: &Wire,
    opened: Opened,
    place: &Place,
    handler: H,
    options: &Options,
    mut stop: watch::Receiver<bool>,
) -> ConnectionEnd {
    let Opened { line, visitor, demand, .. } = opened;
    let is_certified = visitor.link.certificate.is_some();
    let is_for_peers = visitor.link.is_for_peers;
    let options = &limits(options, is_for_peers);
    let outgoing = line.outgoing().clone();
    let connection = Arc::new(Connection {
        handler,
        activity: place.activity.clone(),
        outgoing: outgoing.clone(),
        places: place.places().clone(),
        has_reserved: place.is_restricted() && !is_for_peers,
        visitor,
    });
    let runner = Runner::default();
    let builder = builder(options, is_for_peers, runner.clone());
    let patience = (!is_for_peers).then_some(options.answer_timeout);
    let lingers = !is_for_peers && !place.is_restricted();
    let service = service_fn(move |request: Request<Incoming>| {
        // Only HTTP/2 connections have concurrent requests.
        let is_shared = request.version() == Version::HTTP_2;
        let stream = is_shared
            .then(|| connection.places.add_stream(&connection.activity, patience, lingers));
        stream.iter().for_each(|stream| runner.expect(stream.clone()));
        answer(connection.clone(), request, stream)
    });
    let activity = &place.activity;
    let counted = Counted::new(activity.clone(), place.places().clone());
    let line = line.with_heads().counted(counted);
    let serving = builder.serve_connection(TokioIo::new(line), service);
    tokio::pin!(serving);
    let trust = demand.clone().filter(|_| is_certified);
    let mut ending = Aside::new(ending(wire, &outgoing, place, options, trust));
    let mut stopping = Aside::new(async move {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            () = unwelcome(demand, is_certified) => {}
            () = activity.untaken.has_stuck.notified() => {}
            () = activity.until_spent() => {}
        }
    });
    let mut is_stopping = false;
    loop {
        tokio::select! {
            biased;
            // Checked before responses are sent, so that grants to a disconnected client are released.
            () = &mut ending => return ConnectionEnd::GivenUp,
            served = poll_fn(|context| {
                let served = serving.as_mut().poll(context);
                if served.is_pending() {
                    activity.note_incomplete();
                }
                served
            }) => return if served.is_ok() { ConnectionEnd::Done } else { ConnectionEnd::Refused },
            () = &mut stopping, if !is_stopping => {
                is_stopping = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Returns the time limits of a connection. Connections of other servers have none, because those servers limit their
/// own clients.
fn limits(options: &Options, is_for_peers: bool) -> Options {
    let Options { idle_timeout, answer_timeout, .. } = *options;
    let (idle_timeout, answer_timeout) =
        if is_for_peers { (FOREVER, FOREVER) } else { (idle_timeout, answer_timeout) };
    Options { idle_timeout, answer_timeout, ..options.clone() }
}

/// Returns when the connection must be closed.
async fn ending(
    wire: &Wire,
    outgoing: &Outgoing,
    place: &Place,
    options: &Options,
    trust: Option<watch::Receiver<Demand>>,
) {
    let activity = &place.activity;
    let disowned = async {
        unwelcome(trust, true).await;
        tokio::time::sleep(DISTRUSTED_PATIENCE).await;
    };
    let stalled = async {
        outgoing.stalled_for(options.answer_timeout).await;
        if !activity.intake.is_shared() {
            // On HTTP/1, at most one response is pending.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = gone(wire, activity) => {}
        () = disowned => {}
        () = idle_too_long(activity, options, place.is_restricted()) => {}
        () = activity.until_shed() => {}
        () = stalled => {}
    }
}

/// Returns when the connection must accept no more requests: the CA of its certificate is no longer trusted, or a
/// certificate is required now and it has none. In the latter case, requests in progress continue.
pub(super) async fn unwelcome(demand: Option<watch::Receiver<Demand>>, is_certified: bool) {
    if let Some(mut demand) = demand {
        while demand.changed().await.is_ok() {
            if is_certified || *demand.borrow_and_update() == Demand::Certificate {
                return;
            }
        }
    }
    std::future::pending().await
}

fn builder(options: &Options, is_for_peers: bool, runner: Runner) -> auto::Builder<Runner> {
    let mut builder = auto::Builder::new(runner);
    // The server tracks idle and half-closed connections itself, with one timer per connection instead of one per
    // request. Responses are so short that copying head and body together is faster than a vectored write.
    let http1 = &mut builder.http1();
    http1.header_read_timeout(None).half_close(true).writev(false);
    http1.max_buf_size(options.head_bytes_max.max(HEAD_BYTES_MIN));
    // A connection of another server carries the requests of many clients.
    let (half, n_streams) = match is_for_peers {
        true => (PING_EVERY, u32::try_from(options.streams_max).unwrap_or(u32::MAX)),
        false => (options.keepalive_timeout / 2, STREAMS_PER_CONNECTION),
    };
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(half)
        .keep_alive_timeout(half)
        .max_header_list_size(HTTP2_HEADERS_BYTES_MAX)
        .max_concurrent_streams(n_streams);
    if is_for_peers {
        builder.http2().max_header_list_size(PEER_HEADERS_BYTES_MAX);
    } else {
        builder
            .http2()
            .initial_connection_window_size(WINDOW_BYTES)
            .initial_stream_window_size(WINDOW_BYTES)
            .max_send_buf_size(SEND_BYTES_MAX);
    }
    builder
}

/// The state shared by the requests of a connection.
struct Connection<H> {
    handler: H,
    activity: Arc<Activity>,
    outgoing: Arc<Outgoing>,
    places: Arc<Places>,
    /// Whether the connection has a reserved slot, which it gives up after one response.
    has_reserved: bool,
    visitor: Visitor,
}

async fn answer<H: Handler>(
    connection: Arc<Connection<H>>,
    request: Request<Incoming>,
    stream: Option<Stream>,
) -> Result<Response<Tracked>, Infallible> {
    let Connection { handler, activity, outgoing, places, .. } = &*connection;
    let is_shared = stream.is_some();
    let visitor = Visitor { stream: stream.clone(), ..connection.visitor.clone() };
    let (head, body) = request.into_parts();
    if is_shared {
        activity.intake.share();
    } else {
        activity.intake.took_head(&head, body.size_hint().exact().is_some());
    }
    let limited = stream.as_ref().filter(|_| !visitor.link.is_for_peers);
    let charged = limited.map(|stream| places.charge_stream(&head, stream));
    let (in_progress, body) = activity.begin(body, stream.clone());
    let request = Request::from_parts(head, body);
    let answer = match &charged {
        Some(None) => Answer::head_too_large(),
        Some(Some(_)) | None => handler.answer(visitor, request).await,
    };
    drop(charged);
    stream.iter().for_each(Stream::frees_head);
    let Answer { mut response, undelivered, sending } = answer;
    if connection.has_reserved && is_shared {
        activity.is_spent();
    }
    if !is_shared && (activity.has_unread() || connection.has_reserved) {
        // The unread rest of the body would be parsed as the next request, or other connections need the reserved slot.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if let Some(stream) = stream.filter(|_| is_refusal(response.status())) {
        stream.leave();
    }
    let grant = undelivered.map(|undelivered| {
        let outgoing = outgoing.clone();
        Grant { undelivered, outgoing, is_shared }
    });
    let large = sending.map(|sending| Large { sending, outgoing: outgoing.clone() });
    Ok(response.map(|body| Tracked::new(body, grant, in_progress).counted(large)))
}

fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

/// Returns when the client has disconnected while a request waits. A request that was sent just before is still
/// answered, because some clients close their sending side after the last request.
async fn gone(wire: &Wire, activity: &Activity) {
    wire.closed_by_client().await;
    loop {
        let next_look = activity.waiting_since().unwrap_or_else(Instant::now) + CLOSED_PATIENCE;
        if next_look <= Instant::now() {
            return;
        }
        tokio::time::sleep_until(next_look).await;
    }
}

/// Returns when the connection has been without a request for too long.
pub(super) async fn idle_too_long(activity: &Activity, options: &Options, is_restricted: bool) {
    let Options { header_timeout, idle_timeout, restricted_timeout, .. } = *options;
    let begun = Instant::now();
    loop {
        let next_look = match activity.doing() {
            Doing::New(since)
            | Doing::Idle(since)
            | Doing::Asking(since)
            | Doing::Sending(since, _)
                if is_restricted =>
            {
                let lifetime = restricted_timeout.saturating_mul(RESTRICTED_TIMEOUTS_MAX);
                (since + restricted_timeout).min(begun + lifetime)
            }
            Doing::New(since) | Doing::Asking(since) => since + header_timeout,
            // The client does not read its responses, so it cannot get all of them any more.
            Doing::Idle(since) if activity.untaken.is_stuck() => since + restricted_timeout,
            Doing::Idle(since) => since + idle_timeout,
            Doing::Busy if is_restricted => Instant::now() + restricted_timeout,
            Doing::Busy | Doing::Sending(..) => Instant::now() + header_timeout.min(idle_timeout),
        };
        let headers_since = activity.intake.headers_since_ms().map(|ms| activity.instant(ms));
        let next_look =
            headers_since.map_or(next_look, |since| next_look.min(since + header_timeout));
        let now = Instant::now();
        if next_look <= now {
            return;
        }
        // If the connection becomes idle in the meantime, a shorter limit might apply.
        tokio::select! {
            () = tokio::time::sleep_until(next_look.min(now + idle_timeout)) => {}
            () = activity.intake.until_begun() => {}
        }
    }
}

/// Returns how many bytes a request in progress takes up. On HTTP/2 these are kept until the last byte of the response
/// is taken.
pub fn bytes_per_request<H: Handler>() -> usize {
    fn size<A, B, C, F: Future>(_: impl Fn(A, B, C) -> F) -> usize {
        size_of::<F>()
    }
    size(answer::<H>)
}
