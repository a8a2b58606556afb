//! One connection, from its first byte to its last.
//!
//! It must begin its first request soon and each later one not too long after the last, whatever bytes it trickles
//! meanwhile. What is in progress, a long poll or a stream of events, is left alone as long as the client is there.

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
use crate::door::{Answer, Door, Visitor};
use crate::peer::PING_EVERY;

/// How long a client that has closed its side is still answered. It may read what it asked for; but it does not wait.
const CLOSED_PATIENCE: Duration = Duration::from_millis(10);
/// How long those who showed a certificate of a CA that is not trusted any more have to be told so.
const DISTRUSTED_PATIENCE: Duration = Duration::from_secs(1);
/// The smallest read buffer of HTTP/1.
pub(super) const HEAD_BYTES_MIN: usize = 8 * 1024;
/// Maximum bytes of all headers of an HTTP/2 request, as HTTP/2 counts them.
const HTTP2_HEADERS_BYTES_MAX: u32 = 16 * 1024;
/// Another server adds to what a client says.
const PEER_HEADERS_BYTES_MAX: u32 = 1 << 20;
/// Most requests at once on one connection.
const STREAMS_PER_CONNECTION: u32 = 256;

/// Maximum lifetime of a restricted connection, in multiples of `restricted-timeout`. HTTP ends such a connection after
/// its first response, so this limits Redis connections.
const RESTRICTED_TIMEOUTS_MAX: u32 = 5;
/// Bytes of request bodies that a connection of HTTP/2 may send before the server reads them.
const WINDOW_BYTES: u32 = 64 * 1024;
/// Maximum bytes of one HTTP/2 response that wait for the connection.
const SEND_BYTES_MAX: usize = 64 * 1024;

/// Serves it until it ends, has nothing more to say, or `stop` says so and nothing is in progress.
pub(super) async fn serve(
    opened: Opened,
    place: Place,
    door: Door,
    options: &Options,
    stop: watch::Receiver<bool>,
) {
    let wire = opened.line.wire().clone();
    let outgoing = opened.line.outgoing().clone();
    let activity = &place.activity;
    let ended = talk(&wire, opened, &place, door, options, stop).await;
    outgoing.over();
    let is_answered = match ended {
        Ended::Done => activity.has_unread(),
        Ended::Refused => true,
        Ended::GivenUp => false,
    };
    let lingering = is_answered.then(|| place.leave(&wire)).flatten();
    if let Some(lingering) = lingering {
        lingering.finish().await;
    }
}

/// How a connection came to its end.
enum Ended {
    /// Everything was said, or the client is gone.
    Done,
    /// The client said something that is no request, and was told so.
    Refused,
    /// We had enough of it.
    GivenUp,
}

async fn talk(
    wire: &Wire,
    opened: Opened,
    place: &Place,
    door: Door,
    options: &Options,
    mut stop: watch::Receiver<bool>,
) -> Ended {
    let Opened { line, visitor, demand, .. } = opened;
    let is_certified = visitor.link.certificate.is_some();
    let is_for_peers = visitor.link.is_for_peers;
    let options = &limits(options, is_for_peers);
    let outgoing = line.outgoing().clone();
    let connection = Arc::new(Connection {
        door,
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
        // Only there a connection can have more than one request.
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
            // Before anything is answered: what was just granted to a client that is gone is given back.
            () = &mut ending => return Ended::GivenUp,
            served = poll_fn(|context| {
                let served = serving.as_mut().poll(context);
                if served.is_pending() {
                    activity.note_incomplete();
                }
                served
            }) => return if served.is_ok() { Ended::Done } else { Ended::Refused },
            () = &mut stopping, if !is_stopping => {
                is_stopping = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}

/// The time limits of a connection. Another server limits its clients itself, and says when it has enough.
fn limits(options: &Options, is_for_peers: bool) -> Options {
    let Options { idle_timeout, answer_timeout, .. } = *options;
    let (idle_timeout, answer_timeout) =
        if is_for_peers { (FOREVER, FOREVER) } else { (idle_timeout, answer_timeout) };
    Options { idle_timeout, answer_timeout, ..options.clone() }
}

/// Returns when there is no use in going on.
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
            // Of HTTP/1, no more than one response waits.
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

/// Returns when no more requests are to come by a connection: the certificate it showed was let in by a CA that counts
/// no more, or it showed none and has to now. What the latter is in the middle of goes on.
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
    // We look after silent connections ourselves: one timer for each, not one for each request. We look after those
    // that were closed by the client, too. And our answers are so short that copying head and body together takes less
    // than telling the system of two pieces.
    let http1 = &mut builder.http1();
    http1.header_read_timeout(None).half_close(true).writev(false);
    http1.max_buf_size(options.head_bytes_max.max(HEAD_BYTES_MIN));
    // Another server has many clients, and all of them come by one connection.
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

/// What its requests share.
struct Connection {
    door: Door,
    activity: Arc<Activity>,
    outgoing: Arc<Outgoing>,
    places: Arc<Places>,
    /// Whether it has a reserved place, which it gives up after one response.
    has_reserved: bool,
    visitor: Visitor,
}

async fn answer(
    connection: Arc<Connection>,
    request: Request<Incoming>,
    stream: Option<Stream>,
) -> Result<Response<Tracked>, Infallible> {
    let Connection { door, activity, outgoing, places, .. } = &*connection;
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
        Some(Some(_)) | None => door.answer(visitor, request).await,
    };
    drop(charged);
    stream.iter().for_each(Stream::frees_head);
    let Answer { mut response, undelivered, sending } = answer;
    if connection.has_reserved && is_shared {
        activity.is_spent();
    }
    if !is_shared && (activity.has_unread() || connection.has_reserved) {
        // What is left of the request stands where the next one would; or others need the reserved place.
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

/// Returns when the client is gone and waits for something. What it asked a moment ago may still be answered: there are
/// clients that close their side after their last request.
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

/// Returns when the connection has gone without a request for longer than it may.
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
            // It cannot send all of its responses any more.
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
        // Meanwhile it may begin to be idle, for which it may have less time.
        tokio::select! {
            () = tokio::time::sleep_until(next_look.min(now + idle_timeout)) => {}
            () = activity.intake.until_begun() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<A, B, C, F: Future>(_: impl Fn(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    /// On HTTP/2, it is kept until the last byte of the response is taken.
    #[test]
    fn a_request_in_progress_takes_up_little() {
        let n_bytes = size(answer);
        assert!(n_bytes <= 8 * 1024, "{n_bytes}");
    }
}
