//! A request's body on its way to becoming content: in pieces, never as a whole in memory.

use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::BodyExt;
use sha2::{Digest, Sha256};

use super::{Draft, Error, Open, Store};
use crate::http::shares::Client;

/// Written at once: few enough to hold for many uploads, many enough to be worth a thread's while.
const PIECE_BYTES: usize = 256 * 1024;

/// A body that has come whole and is durable, though it is nothing yet.
pub(crate) struct Upload {
    pub(crate) draft: Box<dyn Draft>,
    /// SHA-256, in hexadecimal.
    pub(crate) hash: String,
    pub(crate) size: u64,
    /// The upload has a file open.
    _open: Open,
}

/// Why a body did not come whole. Nothing was changed.
#[derive(Debug)]
pub(crate) enum Unreceived {
    /// It has more bytes than these.
    TooLarge(u64),
    /// It stopped coming.
    Late,
    /// It broke off.
    Broken,
    /// It cannot be kept.
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

/// Takes a body in and makes it durable. A client may be slow, but not silent for longer than `patience`.
pub(crate) async fn receive(
    store: &Store,
    client: &Client,
    mut body: Body,
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

/// The next bytes of a body; `None` at its end.
async fn next(body: &mut Body, patience: Duration) -> Result<Option<Bytes>, Unreceived> {
    loop {
        let frame = tokio::time::timeout(patience, body.frame()).await;
        let Some(frame) = frame.map_err(|_| Unreceived::Late)? else { return Ok(None) };
        // Anything else is a trailer.
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
