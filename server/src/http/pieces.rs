//! Long answers, sent piece by piece: the next is made when the one before has been taken, so that a reader takes up
//! what it has not read of a piece or two, however long the list.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::answers::Sending;

/// As much as an answer may have to be sent whole, and about as much as one piece has.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;

/// Why an answer breaks off. Its client sees that it did.
pub(crate) struct BrokenOff;

/// A list in JSON that is being sent.
pub(crate) struct Pieces {
    sender: mpsc::Sender<Result<Bytes, std::io::Error>>,
    piece: Vec<u8>,
    is_first: bool,
}

impl Pieces {
    /// Answers with what `make` sends, which begins with `opening`.
    pub(crate) fn answer<F>(
        sending: Sending,
        opening: &str,
        make: impl FnOnce(Self) -> F,
    ) -> Response
    where
        F: Future<Output = Result<(), BrokenOff>> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(1);
        let pieces = Self { sender: sender.clone(), piece: opening.into(), is_first: true };
        let made = make(pieces);
        tokio::spawn(async move {
            if made.await.is_err() {
                // If nobody reads any more, nobody has to be told.
                let _ = sender.send(Err(std::io::Error::other("the list broke off"))).await;
            }
        });
        let stream = ReceiverStream::new(receiver).map(move |piece| {
            // It is being sent for as long as its stream is there.
            let _ = &sending;
            piece
        });
        let mut response = Response::new(Body::from_stream(stream));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }

    /// One more in the list. Returns when it is as good as sent.
    pub(crate) async fn item(&mut self, item: &impl Serialize) -> Result<(), BrokenOff> {
        if !std::mem::take(&mut self.is_first) {
            self.piece.push(b',');
        }
        serde_json::to_writer(&mut self.piece, item).map_err(|_| BrokenOff)?;
        if self.piece.len() >= PIECE_BYTES { self.send().await } else { Ok(()) }
    }

    /// The list is complete; this comes after it.
    pub(crate) async fn end(mut self, closing: &str) -> Result<(), BrokenOff> {
        self.piece.extend_from_slice(closing.as_bytes());
        self.send().await
    }

    async fn send(&mut self) -> Result<(), BrokenOff> {
        let piece = std::mem::take(&mut self.piece);
        self.sender.send(Ok(piece.into())).await.map_err(|_| BrokenOff)
    }
}
