//! Writes a request body to a draft in pieces, so that it is never in memory as a whole.

use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use sha2::{Digest, Sha256};

use super::{Draft, Error, Open, Store};
use leasehold_auth::shares::Client;

/// Bytes per write: small enough for many concurrent uploads, large enough to be worth a switch to a blocking thread.
const PIECE_BYTES: usize = 256 * 1024;

/// A request body that was received completely and is durable, but not published yet.
pub struct Upload {
    /// The durable draft.
    pub draft: Box<dyn Draft>,
    /// The SHA-256 of the content, in hexadecimal.
    pub hash: String,
    /// The size of the content in bytes.
    pub size: u64,
    /// Counts as an upload until it is dropped, because the draft is an open file.
    _open: Open,
}

/// Why a body was not received completely. Nothing was changed.
#[derive(Debug)]
pub enum Unreceived {
    /// The body is larger than this limit in bytes.
    TooLarge(u64),
    /// The client sent nothing for too long.
    Late,
    /// The connection broke.
    Broken,
    /// The content could not be stored.
    Content(Error),
}

impl From<Error> for Unreceived {
    fn from(error: Error) -> Self {
        Unreceived::Content(error)
    }
}

struct Progress {
    draft: Box<dyn Draft>,
    hasher: Sha256,
    size: u64,
}

/// Receives a body and makes it durable. The upload can be slow, but it fails if the client sends nothing for
/// `patience`.
pub async fn receive(
    store: &Store,
    client: &Client,
    mut body: impl Body<Data = Bytes> + Unpin,
    kind: Option<String>,
    bytes_max: u64,
    patience: Duration,
) -> Result<Upload, Unreceived> {
    let open = store.upload(client)?;
    let draft = store.blocking(|content| content.draft()).await?;
    let mut progress = Progress { draft, hasher: Sha256::new(), size: 0 };
    let mut piece = Vec::new();
    while let Some(bytes) = next(&mut body, patience).await? {
        progress.size += bytes.len() as u64;
        if progress.size > bytes_max {
            return Err(Unreceived::TooLarge(bytes_max));
        }
        piece.extend_from_slice(&bytes);
        if piece.len() >= PIECE_BYTES {
            (progress, piece) = write(store, progress, piece).await?;
        }
    }
    let (Progress { mut draft, hasher, size }, _) = write(store, progress, piece).await?;
    let sealed = store.blocking(move |_| {
        draft.seal(kind.as_deref())?;
        Ok(draft)
    });
    let draft = sealed.await?;
    let hash: [u8; 32] = hasher.finalize().into();
    let hash = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Upload { draft, hash, size, _open: open })
}

/// Returns the next bytes of a body; `None` at its end.
async fn next(
    body: &mut (impl Body<Data = Bytes> + Unpin),
    patience: Duration,
) -> Result<Option<Bytes>, Unreceived> {
    loop {
        let frame = tokio::time::timeout(patience, body.frame()).await;
        let Some(frame) = frame.map_err(|_| Unreceived::Late)? else { return Ok(None) };
        // A frame without data contains trailers.
        if let Ok(bytes) = frame.map_err(|_| Unreceived::Broken)?.into_data() {
            return Ok(Some(bytes));
        }
    }
}

async fn write(
    store: &Store,
    mut progress: Progress,
    mut piece: Vec<u8>,
) -> Result<(Progress, Vec<u8>), Error> {
    let written = store.blocking(move |_| {
        progress.draft.write(&piece)?;
        progress.hasher.update(&piece);
        piece.clear();
        Ok((progress, piece))
    });
    written.await
}
