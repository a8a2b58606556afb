//! HTTP/2 requests: limits their number, and how long a client can leave a response unread.
//!
//! An admitted request counts in `streams-max` and in its client's share until its response is read. A refused request
//! counts in neither. Unread responses must use little memory, so each has a time limit (`answer-timeout`), and there
//! is a maximum of all streams, admitted or not. Above it, the server closes the connections that leave most of their
//! responses unread.
//!
//! Many clients lose a response if the server resets the stream while they send. So the server reads and discards the
//! rest of a request body that it did not need, within the same limits as for HTTP/1 ([`super::wire`]).

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::rt::Executor;
use leasehold_base::sync::lock;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::Options;
use super::activity::Activity;
use super::places::ChargedHead;
use super::wire::{DISCARDED_BYTES_MAX, DISCARDING_MAX, SILENCE_MAX};
use crate::metrics::Metrics;
use leasehold_auth::shares::{Client, Full, Shares, Taken};

/// The maximum of all streams is higher than `streams-max` by this fraction: room for refusals, renewals and releases.
const RESERVE_SHARE: usize = 4;
/// Above the maximum, at least this fraction of it is freed, so that the connections are not searched each time.
const FREED_SHARE: i64 = 16;

/// One client can use at most this fraction of the bytes for heads.
const HEADS_SHARE: usize = 4;

/// All HTTP/2 requests.
pub(super) struct Streams {
    shares: Arc<Shares>,
    /// Limits each client's share of the bytes of heads and bodies that count towards `heads-total-bytes-max`.
    heads: Arc<Shares>,
    /// The same bytes together with those of HTTP/1.
    heads_bytes: Gauge,
    heads_bytes_max: i64,
    /// Admitted requests.
    admitted: Gauge,
    /// All requests, including refused ones whose response was not read.
    open: Gauge,
    open_max: i64,
}

/// An HTTP/2 request, from its head to the last byte of its response.
#[derive(Clone, Debug)]
pub struct Stream(Arc<StreamEntry>);

struct StreamEntry {
    streams: Arc<Streams>,
    activity: Arc<Activity>,
    claim: Mutex<StreamShare>,
    /// How long the client can leave the response unread; `None` for no limit.
    patience: Option<Duration>,
    /// Since when the client has read nothing, in milliseconds after the epoch, plus one; 0 if there is nothing to
    /// read.
    untaken_since_ms: AtomicU64,
    n_pieces: AtomicU32,
    /// Whether the server can discard the rest of the request body after the response.
    lingers: bool,
    /// The rest of the request body, which the handler did not read.
    unread: Mutex<Option<Incoming>>,
    /// The bytes of the head that count.
    n_head_bytes: AtomicUsize,
    /// The part of its client's share that the head takes.
    head: Mutex<Option<Taken>>,
    /// The memory for the body, until the body is complete.
    body: Mutex<Option<ChargedBody>>,
}

/// The bytes of a request body that is not complete.
struct ChargedBody {
    _taken: Taken,
    _charged: ChargedHead,
}

/// The units that a request uses in the shares.
enum StreamShare {
    Unknown,
    Admitted(#[allow(dead_code, reason = "its drop gives the place back")] Taken),
    Refused(Full),
    Over,
}

impl Streams {
    pub(super) fn new(options: &Options, metrics: &Metrics) -> Arc<Self> {
        let Options { streams_max, principal_streams_max, heads_total_bytes_max, .. } = *options;
        let open_max = streams_max.saturating_add(streams_max / RESERVE_SHARE);
        Arc::new(Self {
            shares: Shares::new(streams_max, principal_streams_max),
            // The gauge limits those of all clients together.
            heads: Shares::new(usize::MAX / 2, heads_total_bytes_max / HEADS_SHARE),
            heads_bytes: metrics.heads_bytes.clone(),
            heads_bytes_max: i64::try_from(heads_total_bytes_max).unwrap_or(i64::MAX),
            admitted: metrics.streams.clone(),
            open: metrics.streams_open.clone(),
            open_max: i64::try_from(open_max).unwrap_or(i64::MAX),
        })
    }

    /// Adds a request. Also returns how many streams have to be closed for it. `lingers` means that the server can
    /// discard the rest of the request body after the response.
    pub(super) fn add(
        self: &Arc<Self>,
        activity: Arc<Activity>,
        patience: Option<Duration>,
        lingers: bool,
    ) -> (Stream, i64) {
        activity.untaken.n_streams.fetch_add(1, Relaxed);
        let n_excess = self.open.inc() + 1 - self.open_max;
        let stream = Stream(Arc::new(StreamEntry {
            streams: self.clone(),
            activity,
            claim: Mutex::new(StreamShare::Unknown),
            patience,
            untaken_since_ms: AtomicU64::new(0),
            n_pieces: AtomicU32::new(0),
            lingers,
            unread: Mutex::default(),
            n_head_bytes: AtomicUsize::new(0),
            head: Mutex::default(),
            body: Mutex::default(),
        }));
        (stream, if n_excess > 0 { n_excess + self.open_max / FREED_SHARE } else { 0 })
    }

    /// Removes the streams of a connection that is being closed. Returns their number.
    pub(super) fn discharge(&self, activity: &Activity) -> i64 {
        let n = i64::from(activity.untaken.n_streams.swap(0, Relaxed));
        self.open.dec_by(n);
        n
    }
}

impl Stream {
    /// Counts the request for this client, unless it already counts for one. Returns `false` if a limit is reached.
    pub fn enter(&self, client: &Client) -> bool {
        let StreamEntry { streams, claim, .. } = &*self.0;
        let mut claim = lock(claim);
        if let StreamShare::Unknown = *claim {
            *claim = match streams.shares.take(client, None) {
                Ok(taken) => {
                    streams.admitted.inc();
                    StreamShare::Admitted(taken)
                }
                Err(full) => StreamShare::Refused(full),
            };
        }
        !matches!(*claim, StreamShare::Refused(_))
    }

    /// The head of the request takes this many bytes that count.
    pub(super) fn has_head(&self, n_bytes: usize) {
        self.0.n_head_bytes.store(n_bytes, Relaxed);
    }

    /// Counts the head of the request for this client; `false` if the heads of the client's requests are too large.
    pub fn enter_head(&self, client: &Client) -> bool {
        let n_bytes = self.0.n_head_bytes.load(Relaxed);
        if n_bytes == 0 {
            return true;
        }
        let taken = self.0.streams.heads.take_some(client, n_bytes, None).ok();
        let is_taken = taken.is_some();
        *lock(&self.0.head) = taken;
        is_taken
    }

    /// Counts the body of the request, of which the server keeps at most this many bytes until it is complete.
    pub fn enter_body(&self, client: &Client, n_bytes: usize) -> Result<(), Full> {
        let streams = &self.0.streams;
        let _taken = streams.heads.take_some(client, n_bytes, None)?;
        let _charged = ChargedHead::new(&streams.heads_bytes, n_bytes as i64);
        if streams.heads_bytes.get() > streams.heads_bytes_max {
            return Err(Full::All);
        }
        *lock(&self.0.body) = Some(ChargedBody { _taken, _charged });
        Ok(())
    }

    /// The body of the request is complete, or nothing keeps it any more.
    pub(super) fn frees_body(&self) {
        *lock(&self.0.body) = None;
    }

    /// The request is answered, and its head is freed.
    pub(super) fn frees_head(&self) {
        if self.0.n_head_bytes.load(Relaxed) > 0 {
            *lock(&self.0.head) = None;
        }
    }

    /// Why there was no room for the request.
    pub fn refused(&self) -> Option<Full> {
        match *lock(&self.0.claim) {
            StreamShare::Refused(full) => Some(full),
            _ => None,
        }
    }

    /// Frees the units of a refused request before its response is written.
    pub(super) fn leave(&self) {
        self.0.leave();
    }

    /// Keeps the rest of the request body, which the handler did not read, to be discarded.
    pub(super) fn leaves_unread(&self, body: Incoming) {
        let StreamEntry { claim, lingers, unread, .. } = &*self.0;
        if *lingers && !matches!(*lock(claim), StreamShare::Refused(_)) {
            *lock(unread) = Some(body);
        }
    }

    /// Reads and discards the rest of the request body. In the meantime the client can send, and it reads the response
    /// when it has sent everything.
    async fn linger(&self) {
        let Some(body) = lock(&self.0.unread).take() else { return };
        // While discarding, the stream uses no unit of other requests, and its connection is closed first if there are
        // too many.
        self.leave();
        let _lingering = Late::of(&self.0.activity);
        let _ = timeout(DISCARDING_MAX, discard(body)).await;
    }

    /// Returns whether the response has a time limit.
    pub(super) fn is_limited(&self) -> bool {
        self.0.patience.is_some()
    }

    /// Records that the client has read everything it was sent.
    pub(super) fn is_taken(&self) {
        self.0.untaken_since_ms.store(0, Relaxed);
    }

    /// Records that the client is sent one more piece of the response.
    pub(super) fn gives(&self) {
        self.0.n_pieces.fetch_add(1, Relaxed);
        self.0.untaken_since_ms.store(self.0.activity.now_ms() + 1, Relaxed);
    }

    fn untaken_since(&self) -> Option<Instant> {
        let ms = self.0.untaken_since_ms.load(Relaxed).checked_sub(1)?;
        Some(self.0.activity.instant(ms))
    }

    /// Returns whether the connection buffers a part of the response, which stays there until the client reads it.
    fn is_stuck(&self) -> bool {
        self.0.n_pieces.load(Relaxed) > 1
    }
}

impl StreamEntry {
    fn leave(&self) {
        let before = std::mem::replace(&mut *lock(&self.claim), StreamShare::Over);
        if let StreamShare::Admitted(_) = before {
            self.streams.admitted.dec();
        }
    }
}

impl Drop for StreamEntry {
    fn drop(&mut self) {
        self.leave();
        let n_streams = &self.activity.untaken.n_streams;
        let is_counted = n_streams.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_ok();
        if is_counted {
            self.streams.open.dec();
        }
    }
}

impl fmt::Debug for StreamEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamEntry").finish_non_exhaustive()
    }
}

/// The unread responses of one connection.
#[derive(Default)]
pub(super) struct Untaken {
    /// The number of streams that count.
    n_streams: AtomicU32,
    n: AtomicU32,
    /// Aborted streams of which the connection still buffers a part.
    stuck: Mutex<Stuck>,
    pub(super) has_stuck: tokio::sync::Notify,
}

#[derive(Default)]
struct Stuck {
    streams: Vec<Stream>,
    is_over: bool,
}

impl Untaken {
    pub(super) fn n(&self) -> u32 {
        self.n.load(Relaxed)
    }

    pub(super) fn is_stuck(&self) -> bool {
        !lock(&self.stuck).streams.is_empty()
    }

    /// Records that the connection and its buffers are gone.
    pub(super) fn end(&self) {
        let mut stuck = lock(&self.stuck);
        stuck.is_over = true;
        let streams = std::mem::take(&mut stuck.streams);
        drop(stuck);
        drop(streams);
    }

    /// Keeps counting a stream, because the connection still buffers a part of its response.
    fn keep(&self, stream: Stream) {
        let mut stuck = lock(&self.stuck);
        if !stuck.is_over {
            stuck.streams.push(stream);
            self.has_stuck.notify_one();
        }
    }
}

/// Runs the requests of one connection, each within its time limit.
#[derive(Clone, Default)]
pub(super) struct Runner {
    /// The request that is about to run.
    next: Arc<Mutex<Option<Stream>>>,
}

impl Runner {
    pub(super) fn expect(&self, stream: Stream) {
        *lock(&self.next) = Some(stream);
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Runner {
    fn execute(&self, request: F) {
        match lock(&self.next).take().filter(Stream::is_limited) {
            Some(stream) => drop(tokio::spawn(within(stream, request))),
            None => drop(tokio::spawn(request)),
        }
    }
}

/// Returns at the end of the body, if the client is silent for too long, or after the maximum number of bytes to
/// discard.
async fn discard(mut body: Incoming) {
    let mut n_bytes = 0;
    while n_bytes < DISCARDED_BYTES_MAX {
        match timeout(SILENCE_MAX, body.frame()).await {
            Ok(Some(Ok(frame))) => n_bytes += frame.data_ref().map_or(0, |data| data.len()),
            _ => return,
        }
    }
}

/// Runs a request. If its client leaves the response unread for too long, the stream is reset.
async fn within(stream: Stream, request: impl Future<Output = ()>) {
    let is_given_up = {
        let mut request = pin!(request);
        let mut wait = None;
        poll_fn(|context| match request.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(false),
            Poll::Pending => poll_late(&stream, &mut wait, context).map(|()| true),
        })
        .await
    };
    if is_given_up && stream.is_stuck() {
        // The reset waits behind the data that the connection still buffers.
        let activity = stream.0.activity.clone();
        activity.untaken.keep(stream);
    } else if !is_given_up {
        stream.linger().await;
    }
}

/// Counts a stream that stays open because of its client. If there are too many streams, the connections with most of
/// these are closed.
struct Late(Arc<Activity>);

impl Late {
    fn of(activity: &Arc<Activity>) -> Self {
        activity.untaken.n.fetch_add(1, Relaxed);
        Self(activity.clone())
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        self.0.untaken.n.fetch_sub(1, Relaxed);
    }
}

/// An unread response, and its time limit.
struct ReadDeadline {
    until: Instant,
    sleep: std::pin::Pin<Box<Sleep>>,
    _late: Late,
}

fn poll_late(
    stream: &Stream,
    wait: &mut Option<ReadDeadline>,
    context: &mut Context<'_>,
) -> Poll<()> {
    let (Some(since), Some(patience)) = (stream.untaken_since(), stream.0.patience) else {
        *wait = None;
        return Poll::Pending;
    };
    let until = since + patience;
    let wait = wait.get_or_insert_with(|| {
        let late = Late::of(&stream.0.activity);
        ReadDeadline { until, sleep: Box::pin(sleep_until(until)), _late: late }
    });
    if wait.until != until {
        wait.until = until;
        wait.sleep.as_mut().reset(until);
    }
    wait.sleep.as_mut().poll(context)
}
