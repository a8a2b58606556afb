//! Response bodies that track whether the client has received them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use leasehold_engine::Undelivered;

use super::activity::InProgress;
use super::answers::Sending;
use super::outgoing::Outgoing;

/// Maximum bytes of a response that an HTTP/2 connection buffers before the client can read the first of them.
const PIECE_BYTES_MAX: usize = 16 * 1024;

/// A response body. Its request is in progress until the body is written or dropped. If it is dropped, its grant is
/// released.
pub(super) struct Tracked {
    body: Body,
    grant: Option<Grant>,
    large: Option<Large>,
    /// What the body gave and the connection has not got.
    rest: Bytes,
    request: InProgress,
}

/// The grant in a response, until the last piece of the response is handed over.
pub(super) struct Grant {
    pub(super) undelivered: Undelivered,
    pub(super) outgoing: Arc<Outgoing>,
    /// Whether the connection has concurrent responses.
    pub(super) is_shared: bool,
}

/// The bytes of a response, which count until the client takes it.
pub(super) struct Large {
    pub(super) sending: Sending,
    pub(super) outgoing: Arc<Outgoing>,
}

impl Tracked {
    pub(super) fn new(body: Body, grant: Option<Grant>, mut request: InProgress) -> Self {
        if body.size_hint().exact().is_some() {
            request.is_answered();
        }
        Self { body, grant, large: None, rest: Bytes::new(), request }
    }

    pub(super) fn counted(self, large: Option<Large>) -> Self {
        Self { large, ..self }
    }

    /// A response with a grant is never longer than one piece.
    fn hand_over(&mut self, frame: &Frame<Bytes>) {
        if let Some(Grant { undelivered, outgoing, is_shared }) = self.grant.take() {
            let n_bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
            outgoing.hand_over(undelivered, n_bytes, is_shared);
        }
        // On HTTP/2, the response stays here until the client may get all of it.
        if self.request.stream.is_none()
            && let Some(Large { sending, outgoing }) = self.large.take()
        {
            outgoing.count(sending);
        }
    }
}

impl Tracked {
    /// Returns the next piece for an HTTP/2 connection, which buffers a whole piece before it sends the first byte.
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(stream) = &self.request.stream {
            stream.is_taken();
        }
        if self.rest.is_empty() {
            let frame = match ready!(self.poll_body(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(bytes) => self.rest = bytes,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        if let Some(stream) = &self.request.stream {
            stream.gives();
        }
        // The last byte is sent separately, so that the request is in progress until the client can read all bytes.
        let n_bytes = self.rest.len().saturating_sub(1).clamp(1, PIECE_BYTES_MAX);
        let piece = self.rest.split_to(n_bytes.min(self.rest.len()));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn poll_body(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && self.body.is_end_stream()
        {
            self.hand_over(frame);
        }
        Poll::Ready(frame)
    }
}

impl HttpBody for Tracked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &self.request.stream {
            Some(stream) if stream.is_limited() => self.poll_piece(context),
            _ => self.poll_body(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
