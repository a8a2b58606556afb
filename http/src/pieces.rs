//! Sends long responses in pieces. Each piece is created when the previous one was taken, so that a slow reader uses
//! the memory of one or two pieces, however long the list is. A response is aborted if its reader takes nothing for too
//! long.

use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use leasehold_base::sync::lock;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::answers::Sending;

/// Maximum size of a response that is sent in one piece, and approximate size of a piece.
pub const PIECE_BYTES: usize = 64 * 1024;

/// The response was aborted. Its client can see that it is incomplete.
pub struct BrokenOff;

/// Sends a response body.
pub struct Outlet {
    sender: mpsc::Sender<Parcel>,
    sending: Sending,
    /// The piece that was sent last, which might not be taken yet.
    last: Option<Parcel>,
}

/// Sends a JSON list.
pub struct Pieces {
    outlet: Outlet,
    piece: Vec<u8>,
    is_first: bool,
}

/// A piece on its way. The sender can take it back until the connection takes it, because a connection with many
/// requests might never take the pieces of one of them.
type Parcel = Arc<Mutex<Option<Bytes>>>;

impl Outlet {
    /// Creates a body from the pieces that `make` sends.
    pub fn body<F>(sending: Sending, make: impl FnOnce(Self) -> F) -> Body
    where
        F: Future<Output = Result<(), BrokenOff>> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(1);
        let unsent = sender.clone();
        let made = make(Self { sender, sending, last: None });
        tokio::spawn(async move {
            if made.await.is_err() {
                // Fails only if the reader is gone, which needs no handling.
                let _ = unsent.try_send(Parcel::default());
            }
        });
        let pieces = ReceiverStream::new(receiver)
            .map(|parcel| take(&parcel).ok_or_else(|| std::io::Error::other("it broke off")));
        Body::from_stream(pieces)
    }

    /// Sends one more piece after the previous one was taken.
    pub async fn send(&mut self, piece: Bytes) -> Result<(), BrokenOff> {
        self.room().await?;
        let parcel = Parcel::new(Mutex::new(Some(piece)));
        self.last = Some(parcel.clone());
        self.sender.try_send(parcel).map_err(|_| BrokenOff)
    }

    /// Waits until the previous piece was taken, up to a time limit.
    pub async fn room(&mut self) -> Result<(), BrokenOff> {
        let room = tokio::time::timeout(self.sending.patience, self.sender.reserve()).await;
        if room.is_ok_and(|room| room.is_ok()) {
            return Ok(());
        }
        self.last.as_ref().map(take);
        Err(BrokenOff)
    }
}

impl Pieces {
    /// Creates a response from the items that `make` sends. It begins with `opening`.
    pub fn answer<F>(sending: Sending, opening: &str, make: impl FnOnce(Self) -> F) -> Response
    where
        F: Future<Output = Result<(), BrokenOff>> + Send + 'static,
    {
        let piece = opening.into();
        let body = Outlet::body(sending, |outlet| make(Self { outlet, piece, is_first: true }));
        let mut response = Response::new(body);
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }

    /// Sends one more list item. Returns when it is sent or buffered.
    pub async fn item(&mut self, item: &impl Serialize) -> Result<(), BrokenOff> {
        if !std::mem::take(&mut self.is_first) {
            self.piece.push(b',');
        }
        serde_json::to_writer(&mut self.piece, item).map_err(|_| BrokenOff)?;
        if self.piece.len() >= PIECE_BYTES { self.send().await } else { Ok(()) }
    }

    /// Ends the list with this text. Returns when everything was taken.
    pub async fn end(mut self, closing: &str) -> Result<(), BrokenOff> {
        self.piece.extend_from_slice(closing.as_bytes());
        self.send().await?;
        self.outlet.room().await
    }

    async fn send(&mut self) -> Result<(), BrokenOff> {
        let piece = std::mem::take(&mut self.piece);
        self.outlet.send(piece.into()).await
    }
}

fn take(parcel: &Parcel) -> Option<Bytes> {
    lock(parcel).take()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::BodyExt;

    use super::*;
    use crate::Options;
    use crate::answers::Answers;
    use leasehold_auth::shares::Client;

    async fn numbers(mut pieces: Pieces) -> Result<(), BrokenOff> {
        for n in 0..100_000 {
            pieces.item(&n).await?;
        }
        pieces.end("]").await
    }

    #[tokio::test]
    async fn arrives_whole() {
        let answers = Answers::new(&Options::default(), Arc::default());
        let Ok(sending) = answers.long(&Client::any()) else { panic!("there is room") };
        let response = Pieces::answer(sending, "[", numbers);
        let bytes = response.into_body().collect().await.expect("whole").to_bytes();
        let read: Vec<u32> = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(read, (0..100_000).collect::<Vec<_>>());
        assert_eq!(answers.n_long_bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_given_up_and_takes_up_nothing() {
        let answers = Answers::new(&Options::default(), Arc::default());
        let Ok(sending) = answers.long(&Client::any()) else { panic!("there is room") };
        let mut body = Pieces::answer(sending, "[", numbers).into_body();
        assert!(body.frame().await.is_some_and(|frame| frame.is_ok()));
        tokio::time::sleep(Duration::from_secs(25)).await;
        assert!(answers.n_long_bytes() > 0, "slow is not silent");
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(answers.n_long_bytes(), 0);
        assert!(body.collect().await.is_err(), "it must not look complete");
    }
}
