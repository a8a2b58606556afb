//! Content as the body of an answer: in pieces, never as a whole in memory.

use std::io::SeekFrom;

use axum::body::{Body, Bytes};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::Readable;

/// Read at once.
const PIECE_BYTES: usize = 256 * 1024;
/// Pieces read ahead of a slow reader.
const PIECES_AHEAD: usize = 1;

/// Sends a part of something, reading only a little ahead. A reader that goes away ends it.
pub(crate) fn stream(mut content: Box<dyn Readable>, first: u64, length: u64) -> Body {
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    tokio::spawn(async move {
        let (mut at, end) = (first, first + length);
        while at < end {
            let n = usize::try_from(end - at).unwrap_or(usize::MAX).min(PIECE_BYTES);
            let reading = tokio::task::spawn_blocking(move || {
                let piece = read(&mut *content, at, n);
                (content, piece)
            });
            let Ok((back, piece)) = reading.await else { return };
            content = back;
            at += n as u64;
            let is_broken = piece.is_err();
            if sender.send(piece).await.is_err() || is_broken {
                return;
            }
        }
    });
    Body::from_stream(ReceiverStream::new(receiver))
}

fn read(content: &mut dyn Readable, at: u64, n: usize) -> std::io::Result<Bytes> {
    let mut piece = vec![0; n];
    content.seek(SeekFrom::Start(at))?;
    content.read_exact(&mut piece)?;
    Ok(piece.into())
}
