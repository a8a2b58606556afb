//! A request body that can be sent again from its start, because the first server might reply that it did not process
//! the request.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::{BoxError, Error};
use hyper::body::{Frame, SizeHint};
use leasehold_base::sync::lock;

/// Maximum size of a body that is kept. Requests in a cluster are not larger.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The body as it arrives from the client, with a copy of what has arrived.
pub(super) struct Source(Arc<Mutex<KeptBody>>);

struct KeptBody {
    body: Body,
    /// The data that has arrived.
    pieces: Vec<Bytes>,
    n_bytes: usize,
    /// Whether `pieces` contains all data that has arrived.
    is_whole: bool,
    is_over: bool,
    /// How many readers were started. Only the last one continues to read from the client.
    n_begun: usize,
}

/// A reader of the body, from its start.
pub(super) struct Again {
    source: Arc<Mutex<KeptBody>>,
    /// The number of this reader.
    n: usize,
    /// The index of the next piece.
    at: usize,
}

impl Source {
    pub(super) fn new(body: Body) -> Self {
        let is_over = body.is_end_stream();
        let (pieces, n_bytes) = (Vec::new(), 0);
        let kept = KeptBody { body, pieces, n_bytes, is_whole: true, is_over, n_begun: 0 };
        Self(Arc::new(Mutex::new(kept)))
    }

    /// Returns whether the body is complete and still kept, and satisfies `fits`.
    pub(super) fn is(&self, fits: impl FnOnce(&[u8]) -> bool) -> bool {
        let kept = lock(&self.0);
        kept.is_whole && kept.is_over && fits(&kept.pieces.concat())
    }

    /// Starts a new reader; `None` if the start of the body is no longer kept.
    pub(super) fn begin(&self) -> Option<Again> {
        let mut kept = lock(&self.0);
        if !kept.is_whole {
            return None;
        }
        kept.n_begun += 1;
        Some(Again { source: self.0.clone(), n: kept.n_begun, at: 0 })
    }
}

impl HttpBody for Again {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let source = self.source.clone();
        let mut kept = lock(&source);
        if kept.n_begun != self.n {
            return Poll::Ready(Some(Err(Error::new(BoxError::from("sent elsewhere")))));
        }
        if let Some(piece) = kept.pieces.get(self.at).filter(|_| kept.is_whole) {
            let piece = piece.clone();
            self.at += 1;
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        loop {
            if kept.is_over {
                return Poll::Ready(None);
            }
            let frame = ready!(Pin::new(&mut kept.body).poll_frame(context));
            kept.is_over = kept.body.is_end_stream() || !matches!(frame, Some(Ok(_)));
            let Some(frame) = frame else { return Poll::Ready(None) };
            // Trailers are not forwarded.
            let Ok(piece) = frame?.into_data() else { continue };
            kept.keep(&piece);
            self.at += 1;
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
    }

    fn is_end_stream(&self) -> bool {
        let kept = lock(&self.source);
        kept.is_over && (!kept.is_whole || self.at >= kept.pieces.len())
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl KeptBody {
    fn keep(&mut self, piece: &Bytes) {
        self.n_bytes += piece.len();
        if self.n_bytes > KEPT_BYTES_MAX {
            self.is_whole = false;
            self.pieces.clear();
        }
        if self.is_whole {
            self.pieces.push(piece.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn in_pieces(n_pieces: usize, n_bytes: usize) -> Source {
        let piece = Bytes::from(vec![7; n_bytes]);
        let pieces = (0..n_pieces).map(move |_| Ok::<_, std::convert::Infallible>(piece.clone()));
        Source::new(Body::from_stream(tokio_stream::iter(pieces)))
    }

    async fn read(body: Again) -> usize {
        body.collect().await.expect("a body").to_bytes().len()
    }

    #[tokio::test]
    async fn it_begins_again_wherever_it_was() {
        let source = in_pieces(3, 10);
        let mut first = source.begin().expect("a beginning");
        assert!(first.frame().await.is_some_and(|frame| frame.is_ok()));
        let second = source.begin().expect("a beginning");
        assert!(first.frame().await.is_some_and(|frame| frame.is_err()), "it is sent elsewhere");
        assert_eq!(read(second).await, 30);
        assert_eq!(read(source.begin().expect("a beginning")).await, 30);
        let nothing = Source::new(Body::empty());
        assert!(nothing.begin().expect("a beginning").is_end_stream());
    }

    #[tokio::test]
    async fn what_is_too_large_is_sent_once() {
        let source = in_pieces(3, KEPT_BYTES_MAX / 2);
        assert_eq!(read(source.begin().expect("a beginning")).await, KEPT_BYTES_MAX / 2 * 3);
        assert!(source.begin().is_none());
    }
}
