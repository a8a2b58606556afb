//! Tracks what a connection is doing, to decide which connection to close when there are too many.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::intake::Intake;
use super::streams::{Stream, Untaken};

/// Below this upload speed, a client counts as one that only occupies a connection slot, once slots are scarce.
const DRIP_BYTES_PER_SECOND: u64 = 1024;

/// The activity of one connection. Written by the thread that serves it, and read by other threads that look for a
/// connection to close. They can see slightly outdated values.
pub(super) struct Activity {
    /// The start of all times here, which are in milliseconds.
    epoch: Instant,
    n_requests: AtomicU32,
    n_served: AtomicU32,
    /// Requests without a complete response, including endless streams.
    n_waiting: AtomicU32,
    waiting_since_ms: AtomicU64,
    /// When the last request ended, if no request is in progress.
    idle_since_ms: AtomicU64,
    /// Request bodies that were not received completely.
    n_arriving: AtomicU32,
    arriving_since_ms: AtomicU64,
    n_bytes_arrived: AtomicU64,
    /// Whether a request was answered before its body was read.
    has_unread: AtomicBool,
    /// Received bytes that are not a complete request yet.
    pub(super) intake: Intake,
    /// HTTP/2 responses that the client does not read.
    pub(super) untaken: Untaken,
    shed: Notify,
    /// Rings when the connection has sent the one response for which it has a reserved slot.
    spent: Notify,
}

/// The current activity of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// The connection has not sent any request since it was accepted, at this time.
    New(Instant),
    /// No request has been in progress since this time.
    Idle(Instant),
    /// The connection has been sending the head of a request since this time.
    Asking(Instant),
    /// The connection has been sending a request body since this time. The number is the bytes received so far.
    Sending(Instant, u64),
    /// The connection waits for a response or receives one.
    Busy,
}

impl Activity {
    pub(super) fn new(epoch: Instant) -> Arc<Self> {
        Arc::new(Self {
            epoch,
            n_requests: AtomicU32::new(0),
            n_served: AtomicU32::new(0),
            n_waiting: AtomicU32::new(0),
            waiting_since_ms: AtomicU64::new(0),
            idle_since_ms: AtomicU64::new(epoch.elapsed().as_millis() as u64),
            n_arriving: AtomicU32::new(0),
            arriving_since_ms: AtomicU64::new(0),
            n_bytes_arrived: AtomicU64::new(0),
            has_unread: AtomicBool::new(false),
            intake: Intake::default(),
            untaken: Untaken::default(),
            shed: Notify::new(),
            spent: Notify::new(),
        })
    }

    /// Records that a request has started. It ends when its whole response is written.
    pub(super) fn begin(
        self: &Arc<Self>,
        body: Incoming,
        stream: Option<Stream>,
    ) -> (InProgress, Arriving) {
        let now_ms = self.now_ms();
        (self.enter(now_ms, stream.clone()), Arriving::new(body, self, now_ms, stream))
    }

    /// Records that a request was received completely. It ends when its whole response is written.
    pub(super) fn begin_whole(self: &Arc<Self>) -> InProgress {
        self.enter(self.now_ms(), None)
    }

    fn enter(self: &Arc<Self>, now_ms: u64, stream: Option<Stream>) -> InProgress {
        self.n_requests.fetch_add(1, Relaxed);
        if self.n_waiting.fetch_add(1, Relaxed) == 0 {
            self.waiting_since_ms.store(now_ms, Relaxed);
        }
        InProgress { activity: self.clone(), is_waiting: true, stream }
    }

    pub(super) fn doing(&self) -> Doing {
        if self.n_arriving.load(Relaxed) > 0 {
            return Doing::Sending(
                self.at(&self.arriving_since_ms),
                self.n_bytes_arrived.load(Relaxed),
            );
        }
        match (self.n_requests.load(Relaxed), self.n_served.load(Relaxed)) {
            (0, 0) => Doing::New(self.at(&self.idle_since_ms)),
            (0, _) => match self.intake.since_ms() {
                Some(ms) => Doing::Asking(self.epoch + Duration::from_millis(ms)),
                None => Doing::Idle(self.at(&self.idle_since_ms)),
            },
            _ => Doing::Busy,
        }
    }

    /// Returns whether a request is in progress.
    pub(super) fn is_busy(&self) -> bool {
        self.n_requests.load(Relaxed) > 0
    }

    /// Records that all received bytes were parsed. If they are not a complete request, a request has started.
    pub(super) fn note_incomplete(&self) {
        if self.intake.is_new() && !self.is_busy() {
            self.intake.begin(self.now_ms());
        }
    }

    /// Records how many bytes are left that are not a complete request. For protocols other than HTTP.
    pub(super) fn has_left(&self, n_bytes: usize) {
        self.intake.left(n_bytes);
        match n_bytes {
            0 => self.intake.clear(),
            _ => self.intake.begin(self.now_ms()),
        }
    }

    /// Returns when a connection with a large buffer last had a request in progress.
    pub(super) fn buffers_since(&self) -> Option<Instant> {
        if self.intake.n_charged() == 0 {
            return None;
        }
        match self.doing() {
            Doing::New(since) | Doing::Idle(since) | Doing::Asking(since) => Some(since),
            Doing::Sending(..) | Doing::Busy => None,
        }
    }

    /// Returns since when the connection could be closed without harm; `None` if it could not. New connections get some
    /// time to send a request, and uploads some time to show their speed.
    pub(super) fn dispensable_since(
        &self,
        moment: Duration,
        drip_after: Duration,
    ) -> Option<Instant> {
        match self.doing() {
            Doing::New(since) | Doing::Asking(since) => {
                (since.elapsed() >= moment).then_some(since)
            }
            Doing::Idle(since) => Some(since),
            Doing::Sending(since, n_bytes) => {
                let taken = since.elapsed();
                let n_due = taken.as_secs().saturating_mul(DRIP_BYTES_PER_SECOND);
                (taken >= drip_after && n_bytes < n_due).then_some(since)
            }
            Doing::Busy => None,
        }
    }

    /// Returns since when a request has been waiting for something.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        let is_waiting = self.n_waiting.load(Relaxed) > 0;
        is_waiting.then(|| self.at(&self.waiting_since_ms))
    }

    pub(super) fn has_unread(&self) -> bool {
        self.has_unread.load(Relaxed)
    }

    /// Closes the connection, because another one needs its slot.
    pub(super) fn shed(&self) {
        self.shed.notify_one();
    }

    /// Ends the connection after the requests in progress.
    pub(super) fn is_spent(&self) {
        self.spent.notify_one();
    }

    pub(super) async fn until_spent(&self) {
        self.spent.notified().await;
    }

    /// Returns when the connection has to be closed to free its slot.
    pub(super) async fn until_shed(&self) {
        self.shed.notified().await;
    }

    fn at(&self, ms: &AtomicU64) -> Instant {
        self.instant(ms.load(Relaxed))
    }

    pub(super) fn instant(&self, ms: u64) -> Instant {
        self.epoch + Duration::from_millis(ms)
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.epoch.elapsed().as_millis() as u64
    }
}

/// A request in progress; it ends when this is dropped.
pub(super) struct InProgress {
    activity: Arc<Activity>,
    is_waiting: bool,
    pub(super) stream: Option<Stream>,
}

impl InProgress {
    /// Records that the response is ready: from now on the request waits only for the network.
    pub(super) fn is_answered(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            self.activity.n_waiting.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.is_answered();
        let now_ms = self.activity.now_ms();
        self.activity.idle_since_ms.store(now_ms, Relaxed);
        self.activity.intake.ended(now_ms);
        self.activity.n_served.fetch_add(1, Relaxed);
        self.activity.n_requests.fetch_sub(1, Relaxed);
    }
}

/// A request body that is being received.
pub(super) struct Arriving {
    /// `None` once this is being dropped.
    body: Option<Incoming>,
    /// `None` once the whole body was received.
    activity: Option<Arc<Activity>>,
    /// The HTTP/2 request that discards the rest of the body.
    stream: Option<Stream>,
}

impl Arriving {
    fn new(body: Incoming, activity: &Arc<Activity>, now_ms: u64, stream: Option<Stream>) -> Self {
        if body.is_end_stream() {
            return Self { body: Some(body), activity: None, stream: None };
        }
        if activity.n_arriving.fetch_add(1, Relaxed) == 0 {
            activity.arriving_since_ms.store(now_ms, Relaxed);
            activity.n_bytes_arrived.store(0, Relaxed);
        }
        Self { body: Some(body), activity: Some(activity.clone()), stream }
    }

    fn is_here(&mut self) -> Option<Arc<Activity>> {
        let activity = self.activity.take()?;
        activity.n_arriving.fetch_sub(1, Relaxed);
        self.stream.iter().for_each(Stream::frees_body);
        Some(activity)
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if let Some(activity) = self.is_here() {
            activity.has_unread.store(true, Relaxed);
            if let (Some(stream), Some(body)) = (&self.stream, self.body.take()) {
                stream.leaves_unread(body);
            }
        }
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(&mut *body).poll_frame(context));
        let is_end = body.is_end_stream();
        match (&frame, &self.activity) {
            (Some(Ok(frame)), Some(activity)) => {
                let n_bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                activity.n_bytes_arrived.fetch_add(n_bytes, Relaxed);
                activity.intake.taken(n_bytes as usize);
            }
            (None | Some(Err(_)), _) => drop(self.is_here()),
            (_, None) => {}
        }
        if is_end {
            self.is_here();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::new, HttpBody::size_hint)
    }
}
