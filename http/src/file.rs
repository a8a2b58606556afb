//! Sends content as a response body in pieces, so that it is never in memory as a whole. The file stays open as long as
//! the client reads.

use std::io::{Read, Seek, SeekFrom};

use axum::body::{Body, Bytes};

use crate::answers::Sending;
use crate::pieces::{BrokenOff, Outlet, PIECE_BYTES};

/// Sends `length` bytes from the position `first` and reads only one piece ahead. It stops if the client disconnects or
/// does not read for too long.
pub fn stream(
    content: impl Read + Seek + Send + 'static,
    first: u64,
    length: u64,
    sending: Sending,
) -> Body {
    Outlet::body(sending, async move |mut outlet| {
        send(content, first, length, &mut outlet).await?;
        outlet.room().await
    })
}

async fn send(
    mut content: impl Read + Seek + Send + 'static,
    first: u64,
    length: u64,
    outlet: &mut Outlet,
) -> Result<(), BrokenOff> {
    let (mut at, end) = (first, first + length);
    while at < end {
        let n = usize::try_from(end - at).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let reading = tokio::task::spawn_blocking(move || {
            let piece = read(&mut content, at, n);
            (content, piece)
        });
        let (back, piece) = reading.await.map_err(|_| BrokenOff)?;
        content = back;
        at += n as u64;
        let Ok(piece) = piece else {
            // The client gets the error after the pieces that were already sent.
            outlet.room().await?;
            return Err(BrokenOff);
        };
        outlet.send(piece).await?;
    }
    Ok(())
}

fn read(content: &mut (impl Read + Seek), at: u64, n: usize) -> std::io::Result<Bytes> {
    let mut piece = vec![0; n];
    content.seek(SeekFrom::Start(at))?;
    content.read_exact(&mut piece)?;
    Ok(piece.into())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::sync::Arc;
    use std::time::Duration;

    use http_body_util::BodyExt;

    use super::*;
    use crate::Options;
    use crate::answers::Answers;
    use leasehold_auth::shares::Client;

    /// A file of zeros; the reference count of `_is_open` shows whether it is open.
    struct Opened {
        bytes: Cursor<Vec<u8>>,
        _is_open: Arc<()>,
    }

    impl Read for Opened {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.bytes.read(buffer)
        }
    }

    impl Seek for Opened {
        fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
            self.bytes.seek(to)
        }
    }

    fn sent(answers: &Answers, n_bytes: usize, length: usize) -> (Body, Arc<()>) {
        let is_open = Arc::new(());
        let bytes = Cursor::new(vec![0; n_bytes]);
        let file = Box::new(Opened { bytes, _is_open: is_open.clone() });
        let Ok(sending) = answers.download(&Client::any()) else { panic!("there is room") };
        (stream(file, 0, length as u64, sending), is_open)
    }

    #[tokio::test]
    async fn arrives_whole_or_visibly_not() {
        let answers = Answers::new(&Options::default(), Arc::default());
        for n_bytes in [0, 1, PIECE_BYTES, 5 * PIECE_BYTES + 1] {
            let (body, _) = sent(&answers, n_bytes, n_bytes);
            assert_eq!(body.collect().await.expect("whole").to_bytes().len(), n_bytes);
        }
        // The file became shorter in the meantime.
        let (body, _) = sent(&answers, PIECE_BYTES, PIECE_BYTES + 1);
        assert!(body.collect().await.is_err(), "it must not look complete");
        assert_eq!(answers.n_downloads(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_keeps_no_file_open() {
        let answers = Answers::new(&Options::default(), Arc::default());
        let (mut body, is_open) = sent(&answers, 10 * PIECE_BYTES, 10 * PIECE_BYTES);
        assert!(body.frame().await.is_some_and(|frame| frame.is_ok()));
        tokio::time::sleep(Duration::from_secs(25)).await;
        assert_eq!((Arc::strong_count(&is_open), answers.n_downloads()), (2, 1), "not yet");
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!((Arc::strong_count(&is_open), answers.n_downloads()), (1, 0));
        assert!(body.collect().await.is_err(), "it must not look complete");
    }
}
