//! `Content-MD5`: Terraform sends it with every body, so that the server detects bodies that were damaged in transit.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{HeaderMap, HeaderName};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use tokio::sync::oneshot;
use tokio_stream::Stream;

use super::error::Refusal;

const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

/// The checksum that a request announces for its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Checksum([u8; 16]);

impl Checksum {
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Self>, Refusal> {
        let Some(said) = headers.get(CONTENT_MD5) else { return Ok(None) };
        let bytes = STANDARD.decode(said).ok().and_then(|bytes| bytes.try_into().ok());
        let why = "Content-MD5 must be 16 bytes in base64";
        bytes.map(|bytes| Some(Self(bytes))).ok_or_else(|| Refusal::invalid(why))
    }

    /// Checks that the body has this checksum.
    pub(super) fn check(self, body: &[u8]) -> Result<(), Refusal> {
        self.compare(Md5::digest(body).into())
    }

    /// Returns the same body, and the checksum that is computed while the body is read.
    pub(super) fn watch(self, body: Body) -> (Body, Watching) {
        let (told, had) = oneshot::channel();
        let (stream, hasher) = (body.into_data_stream(), Md5::new());
        let body = Body::from_stream(Watched { stream, hasher, told: Some(told) });
        (body, Watching { said: self, had })
    }

    fn compare(self, had: [u8; 16]) -> Result<(), Refusal> {
        let why =
            "the body does not match Content-MD5: it was damaged in transit; nothing was changed";
        if self.0 == had { Ok(()) } else { Err(Refusal::invalid(why)) }
    }
}

/// The announced checksum of a body, and the one that is computed while the body is read.
pub(super) struct Watching {
    said: Checksum,
    had: oneshot::Receiver<[u8; 16]>,
}

impl Watching {
    /// Compares the checksums after the whole body has been read.
    pub(super) fn check(mut self) -> Result<(), Refusal> {
        // A body that was not read to its end has no checksum, and is rejected.
        self.said.compare(self.had.try_recv().unwrap_or_default())
    }
}

struct Watched {
    stream: BodyDataStream,
    hasher: Md5,
    told: Option<oneshot::Sender<[u8; 16]>>,
}

impl Stream for Watched {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = std::task::ready!(Pin::new(&mut self.stream).poll_next(context));
        match &next {
            Some(Ok(bytes)) => self.hasher.update(bytes),
            Some(Err(_)) => {}
            None => {
                let had = std::mem::take(&mut self.hasher).finalize().into();
                // The receiver is gone if the body was rejected in the meantime.
                let _ = self.told.take().map(|told| told.send(had));
            }
        }
        Poll::Ready(next)
    }
}
