//! Counts the received bytes of a connection that are not a complete request yet, and since when.
//!
//! HTTP/1 keeps the head of a request in one buffer until it is complete. The buffer grows with the head and is freed
//! with the connection. So its size counts for as long as the connection lives, and is part of a budget that all
//! connections share (`heads-total-bytes-max`). The first [`FREE_BYTES`] are not counted: every connection has those.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use hyper::http::request::Parts;
use tokio::sync::Notify;

use super::activity::Activity;
use super::frames::Headers;
use super::places::Places;

/// The buffer that every connection has.
pub(super) const FREE_BYTES: usize = 16 * 1024;
/// Memory for the head of an HTTP/2 request that is not counted: enough for most requests.
pub(super) const FREE_STREAM_BYTES: usize = 8 * 1024;
/// Memory that a header takes in addition to its name and value, however short they are.
const HEADER_BYTES: usize = 256;

/// The intake of one connection. Written by the thread that serves it, except for the charge.
#[derive(Default)]
pub(super) struct Intake {
    n_unread: AtomicUsize,
    /// When the incomplete request began, in milliseconds after the epoch, plus one; 0 without an incomplete request.
    since_ms: AtomicU64,
    /// Whether the exact end of the current request is known.
    is_exact: AtomicBool,
    /// When the incomplete headers of an HTTP/2 request began, in milliseconds after the epoch, plus one; 0 without
    /// such headers. Other requests can be in progress at the same time.
    headers_since_ms: AtomicU64,
    /// Whether requests share the connection (HTTP/2), which has separate limits.
    is_shared: AtomicBool,
    /// The bytes of the budget that the buffer uses.
    n_charged: AtomicUsize,
    /// Rings when an incomplete request has begun.
    begun: Notify,
}

impl Intake {
    /// Adds received bytes. Returns how many bytes belonged to no request before.
    fn heard(&self, n_bytes: usize) -> usize {
        let n_before = self.n_unread.load(Relaxed);
        self.n_unread.store(n_before + n_bytes, Relaxed);
        n_before
    }

    /// Assigns these bytes to a request.
    pub(super) fn taken(&self, n_bytes: usize) {
        let n_unread = self.n_unread.load(Relaxed);
        self.n_unread.store(n_unread.saturating_sub(n_bytes), Relaxed);
    }

    /// Records that the head of a request is complete. `is_exact` means that its body has a known length.
    pub(super) fn took_head(&self, head: &Parts, is_exact: bool) {
        self.taken(head_bytes(head));
        self.since_ms.store(0, Relaxed);
        self.is_exact.store(is_exact, Relaxed);
    }

    pub(super) fn is_shared(&self) -> bool {
        self.is_shared.load(Relaxed)
    }

    /// Records that the first bytes were the HTTP/2 preface and not a request.
    pub(super) fn share(&self) {
        self.is_shared.store(true, Relaxed);
        self.since_ms.store(0, Relaxed);
    }

    /// Records that a request has ended. The bytes after it are the start of the next request.
    pub(super) fn ended(&self, now_ms: u64) {
        if self.n_unread.load(Relaxed) == 0 || self.is_shared() {
            return;
        }
        if self.is_exact.load(Relaxed) {
            self.begin(now_ms);
        } else {
            // The remaining bytes might belong to the framing of its chunks.
            self.n_unread.store(0, Relaxed);
        }
    }

    /// Records that an incomplete request has begun.
    pub(super) fn is_new(&self) -> bool {
        let is_there = self.n_unread.load(Relaxed) > 0 && self.since_ms.load(Relaxed) == 0;
        is_there && !self.is_shared()
    }

    pub(super) fn begin(&self, now_ms: u64) {
        if self.since_ms.load(Relaxed) == 0 {
            self.since_ms.store(now_ms + 1, Relaxed);
            self.begun.notify_one();
        }
    }

    /// Records that this many bytes belong to an incomplete request.
    pub(super) fn left(&self, n_bytes: usize) {
        self.n_unread.store(n_bytes, Relaxed);
    }

    /// Records that all complete requests are answered, so that the next one begins now.
    pub(super) fn clear(&self) {
        self.since_ms.store(0, Relaxed);
    }

    /// Returns when the incomplete request began, if there is one.
    pub(super) fn since_ms(&self) -> Option<u64> {
        let since_ms = self.since_ms.load(Relaxed).checked_sub(1);
        since_ms.or_else(|| self.headers_since_ms())
    }

    /// Returns when the incomplete headers of an HTTP/2 request began, if there are any.
    pub(super) fn headers_since_ms(&self) -> Option<u64> {
        self.headers_since_ms.load(Relaxed).checked_sub(1)
    }

    fn follow(&self, Headers { is_open, has_ended }: Headers, now_ms: impl Fn() -> u64) {
        if has_ended {
            self.headers_since_ms.store(0, Relaxed);
        }
        if is_open && self.headers_since_ms.load(Relaxed) == 0 {
            self.headers_since_ms.store(now_ms() + 1, Relaxed);
            self.begun.notify_one();
        }
    }

    pub(super) async fn until_begun(&self) {
        self.begun.notified().await;
    }

    /// Counts a buffer that has grown, and returns by how much.
    pub(super) fn charge(&self, n_bytes: usize) -> usize {
        n_bytes.saturating_sub(self.n_charged.fetch_max(n_bytes, Relaxed))
    }

    pub(super) fn n_charged(&self) -> usize {
        self.n_charged.load(Relaxed)
    }

    /// Records that the buffer is freed. Returns the bytes of the budget that it used.
    pub(super) fn discharge(&self) -> usize {
        self.n_charged.swap(0, Relaxed)
    }
}

/// Returns the size of a head as clients usually format it, which is never more than the real size apart from white
/// space.
fn head_bytes(head: &Parts) -> usize {
    let uri = &head.uri;
    let authority = match (uri.scheme_str(), uri.authority()) {
        (Some(scheme), Some(authority)) => scheme.len() + "://".len() + authority.as_str().len(),
        (None, Some(authority)) => authority.as_str().len(),
        (_, None) => 0,
    };
    let target = authority + uri.path_and_query().map_or(0, |path| path.as_str().len());
    let headers = head.headers.iter();
    let headers: usize =
        headers.map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len()).sum();
    head.method.as_str().len() + target + "  HTTP/1.1\r\n\r\n".len() + headers
}

/// Returns the memory that the head of an HTTP/2 request uses beyond the free allowance while the request is served.
pub(super) fn charged_bytes(head: &Parts) -> usize {
    let n_bytes = head_bytes(head).saturating_add(head.headers.len() * HEADER_BYTES);
    n_bytes.saturating_sub(FREE_STREAM_BYTES)
}

/// Counts the bytes read from a connection.
pub(super) struct Counted {
    activity: Arc<Activity>,
    places: Arc<Places>,
    /// The size of the buffer that was counted so far.
    n_known: usize,
}

impl Counted {
    pub(super) fn new(activity: Arc<Activity>, places: Arc<Places>) -> Self {
        Self { activity, places, n_known: FREE_BYTES }
    }

    /// Counts received bytes. `n_room` is the free space that the buffer had before.
    pub(super) fn heard(&mut self, n_bytes: usize, n_room: usize) {
        let n_buffer = self.activity.intake.heard(n_bytes) + n_room;
        if n_buffer > self.n_known {
            self.grow(n_buffer);
        }
    }

    /// Records that received bytes begin or complete the headers of an HTTP/2 request.
    pub(super) fn follow(&self, headers: Headers) {
        self.activity.intake.follow(headers, || self.activity.now_ms());
    }

    #[cold]
    fn grow(&mut self, n_buffer: usize) {
        if self.activity.intake.is_shared() {
            self.n_known = usize::MAX;
        } else if !self.activity.is_busy() {
            self.n_known = n_buffer;
            self.places.charge(&self.activity, n_buffer - FREE_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    #[test]
    fn a_head_has_as_many_bytes_as_clients_usually_send() {
        let request = Request::post("/v1/locks/a%20b/renew?x=1")
            .header("host", "a.example:80")
            .header("content-length", "12");
        let (head, ()) = request.body(()).expect("a request").into_parts();
        let text = "POST /v1/locks/a%20b/renew?x=1 HTTP/1.1\r\nhost: a.example:80\r\ncontent-length: 12\r\n\r\n";
        assert_eq!(head_bytes(&head), text.len());
        let intake = Intake::default();
        intake.heard(text.len() + 12);
        intake.took_head(&head, true);
        intake.taken(12);
        intake.ended(7);
        assert_eq!((intake.since_ms(), intake.is_new()), (None, false));
        // The start of the next request arrives with it.
        intake.heard(text.len() + 3);
        intake.took_head(&head, true);
        intake.ended(7);
        assert_eq!(intake.since_ms(), Some(7));
    }

    #[test]
    fn the_start_of_http2_is_no_incomplete_request() {
        let intake = Intake::default();
        intake.heard(24);
        assert!(intake.is_new());
        intake.begin(5);
        intake.share();
        assert_eq!((intake.since_ms(), intake.is_new()), (None, false));
    }

    #[test]
    fn a_buffer_is_counted_by_its_largest_size() {
        let intake = Intake::default();
        assert_eq!((intake.charge(10), intake.charge(5), intake.charge(12)), (10, 0, 2));
        assert_eq!((intake.discharge(), intake.discharge()), (12, 0));
    }
}
