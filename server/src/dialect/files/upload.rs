//! A request's body on its way to becoming a file: in pieces, never as a whole in memory.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use sha2::{Digest, Sha256};

use super::Files;
use super::content::Draft;
use super::error::Refusal;

/// Written at once: few enough to hold for many uploads, many enough to be worth a thread's while.
const PIECE_BYTES: usize = 256 * 1024;

/// A body that has come whole and is durable, though it is no file yet.
pub(super) struct Upload {
    pub(super) draft: Box<dyn Draft>,
    /// SHA-256, in hexadecimal.
    pub(super) hash: String,
    pub(super) size: u64,
}

struct Progress {
    draft: Box<dyn Draft>,
    hasher: Sha256,
    size: u64,
}

/// What a request says its body is. `None`: nothing worth keeping.
pub(super) fn kind(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(None) };
    let kind = kind.to_str().ok().filter(|kind| kind.contains('/'));
    let kind = kind.ok_or_else(|| Refusal::invalid("the content type is not a media type"))?;
    // What curl says of everything says nothing.
    let is_telling = kind != "application/x-www-form-urlencoded";
    Ok(is_telling.then(|| kind.to_owned()))
}

/// Refuses what is said to be too large before any of it has come.
pub(super) async fn check_size(files: &Files, n_bytes: u64) -> Result<(), Refusal> {
    let bytes_max = files.app.dialect.files.bytes_max;
    if n_bytes > bytes_max {
        return Err(Refusal::too_large(bytes_max));
    }
    files.blocking(move |content| content.check_room(n_bytes)).await
}

/// Takes a body in and makes it durable.
pub(super) async fn receive(
    files: &Files,
    mut body: Body,
    kind: Option<String>,
) -> Result<Upload, Refusal> {
    let draft = files.blocking(|content| content.draft()).await?;
    let mut progress = Progress { draft, hasher: Sha256::new(), size: 0 };
    let mut piece = Vec::new();
    while let Some(bytes) = next(&mut body, files.app.http.body_timeout).await? {
        progress.size += bytes.len() as u64;
        if progress.size > files.app.dialect.files.bytes_max {
            return Err(Refusal::too_large(files.app.dialect.files.bytes_max));
        }
        piece.extend_from_slice(&bytes);
        if piece.len() >= PIECE_BYTES {
            (progress, piece) = write(files, progress, piece).await?;
        }
    }
    let (Progress { mut draft, hasher, size }, _) = write(files, progress, piece).await?;
    let draft = files
        .blocking(move |_| {
            draft.seal(kind.as_deref())?;
            Ok(draft)
        })
        .await?;
    let hash: [u8; 32] = hasher.finalize().into();
    let hash = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Upload { draft, hash, size })
}

/// The next bytes of a body; `None` at its end. A client may be slow, but not silent.
async fn next(body: &mut Body, patience: Duration) -> Result<Option<Bytes>, Refusal> {
    loop {
        let frame = tokio::time::timeout(patience, body.frame()).await.map_err(|_| {
            let message = "the body stopped coming; nothing was changed";
            Refusal::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message)
        })?;
        let Some(frame) = frame else { return Ok(None) };
        let frame =
            frame.map_err(|_| Refusal::invalid("the body broke off; nothing was changed"))?;
        // Anything else is a trailer.
        if let Ok(bytes) = frame.into_data() {
            return Ok(Some(bytes));
        }
    }
}

async fn write(
    files: &Files,
    mut progress: Progress,
    mut piece: Vec<u8>,
) -> Result<(Progress, Vec<u8>), Refusal> {
    let written = files.blocking(move |_| {
        progress.draft.write(&piece)?;
        progress.hasher.update(&piece);
        piece.clear();
        Ok((progress, piece))
    });
    written.await
}
