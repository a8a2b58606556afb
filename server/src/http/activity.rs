//! Is a connection doing anything?

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::intake::Intake;
use super::streams::{Stream, Untaken};

/// An upload slower than this is taken for somebody who only wants the place, once places are short.
const DRIP_BYTES_PER_SECOND: u64 = 1024;

/// What happens on one connection. Written by the thread that serves it; whoever looks for a place to give to another
/// looks at it from elsewhere, and need not see the very latest.
pub(super) struct Activity {
    /// Times are milliseconds since then.
    epoch: Instant,
    n_requests: AtomicU32,
    n_served: AtomicU32,
    /// Requests that wait for an answer, or for more of one that has no end.
    n_waiting: AtomicU32,
    waiting_since_ms: AtomicU64,
    /// Since when there is no request, if there is none.
    idle_since_ms: AtomicU64,
    /// Bodies that have not come whole.
    n_arriving: AtomicU32,
    arriving_since_ms: AtomicU64,
    n_bytes_arrived: AtomicU64,
    /// A request was answered before its body was read.
    has_unread: AtomicBool,
    /// Bytes that are not a complete request yet.
    pub(super) intake: Intake,
    /// Responses of HTTP/2 that the client does not take.
    pub(super) untaken: Untaken,
    shed: Notify,
    /// Rings when the connection has given the response for which it has its place.
    spent: Notify,
}

/// What a connection is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// Nothing since then, and never anything.
    New(Instant),
    /// Nothing since then.
    Idle(Instant),
    /// The connection has been sending the head of a request since then.
    Asking(Instant),
    /// It sends a request's body since then, of which so many bytes have come.
    Sending(Instant, u64),
    /// It waits for an answer, or takes one in.
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

    /// A request has begun; it lasts until its whole answer is written.
    pub(super) fn begin<B: HttpBody>(
        self: &Arc<Self>,
        body: B,
        stream: Option<Stream>,
    ) -> (InProgress, Arriving<B>) {
        let now_ms = self.now_ms();
        (self.enter(now_ms, stream), Arriving::new(body, self, now_ms))
    }

    /// The same of something that has come whole.
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

    /// Is a request in progress?
    pub(super) fn is_busy(&self) -> bool {
        self.n_requests.load(Relaxed) > 0
    }

    /// All received bytes were read. If they are not a complete request, a request has begun.
    pub(super) fn note_incomplete(&self) {
        if self.intake.is_new() && !self.is_busy() {
            self.intake.begin(self.now_ms());
        }
    }

    /// This many bytes are left that are not a complete request. For protocols other than HTTP.
    pub(super) fn has_left(&self, n_bytes: usize) {
        self.intake.left(n_bytes);
        match n_bytes {
            0 => self.intake.clear(),
            _ => self.intake.begin(self.now_ms()),
        }
    }

    /// Returns since when a connection with a large buffer has had no request in progress.
    pub(super) fn buffers_since(&self) -> Option<Instant> {
        if self.intake.n_charged() == 0 {
            return None;
        }
        match self.doing() {
            Doing::New(since) | Doing::Idle(since) | Doing::Asking(since) => Some(since),
            Doing::Sending(..) | Doing::Busy => None,
        }
    }

    /// Since when it could have been closed without harm; `None` if it could not. What is new gets a moment to say what
    /// it wants, and an upload some time to show its pace.
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

    /// Since when some request waits for something.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        let is_waiting = self.n_waiting.load(Relaxed) > 0;
        is_waiting.then(|| self.at(&self.waiting_since_ms))
    }

    pub(super) fn has_unread(&self) -> bool {
        self.has_unread.load(Relaxed)
    }

    /// Has the connection closed: its place is somebody else's.
    pub(super) fn shed(&self) {
        self.shed.notify_one();
    }

    /// The connection is to end after the requests in progress.
    pub(super) fn is_spent(&self) {
        self.spent.notify_one();
    }

    pub(super) async fn until_spent(&self) {
        self.spent.notified().await;
    }

    /// Returns when the connection has to give its place up.
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

/// A request in progress.
pub(super) struct InProgress {
    activity: Arc<Activity>,
    is_waiting: bool,
    pub(super) stream: Option<Stream>,
}

impl InProgress {
    /// The answer is there: from here on nobody waits but for the network.
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

/// A request's body on its way in.
pub(super) struct Arriving<B> {
    body: B,
    /// Until it is here.
    activity: Option<Arc<Activity>>,
}

impl<B: HttpBody> Arriving<B> {
    fn new(body: B, activity: &Arc<Activity>, now_ms: u64) -> Self {
        if body.is_end_stream() {
            return Self { body, activity: None };
        }
        if activity.n_arriving.fetch_add(1, Relaxed) == 0 {
            activity.arriving_since_ms.store(now_ms, Relaxed);
            activity.n_bytes_arrived.store(0, Relaxed);
        }
        Self { body, activity: Some(activity.clone()) }
    }
}

impl<B> Arriving<B> {
    fn is_here(&mut self) -> Option<Arc<Activity>> {
        let activity = self.activity.take()?;
        activity.n_arriving.fetch_sub(1, Relaxed);
        Some(activity)
    }
}

impl<B> Drop for Arriving<B> {
    fn drop(&mut self) {
        if let Some(activity) = self.is_here() {
            activity.has_unread.store(true, Relaxed);
        }
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for Arriving<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match (&frame, &self.activity) {
            (Some(Ok(frame)), Some(activity)) => {
                let n_bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                activity.n_bytes_arrived.fetch_add(n_bytes, Relaxed);
                activity.intake.taken(n_bytes as usize);
            }
            (None | Some(Err(_)), _) => drop(self.is_here()),
            (_, None) => {}
        }
        if self.body.is_end_stream() {
            self.is_here();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
