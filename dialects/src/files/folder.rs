//! Endpoints for folders: list a folder, and create one.

use axum::http::StatusCode;
use axum::response::Response;
use leasehold_auth::Permitted;

use super::error::Refusal;
use super::hold::{Change, Hold};
use super::session::Session;
use super::wire::{self, EntryKind, EntryShown, FolderMade, FolderShown};
use super::{Files, to_completion, write};
use crate::content::{Entry, FilePath, Reach, ToRead, ToWrite};

/// Maximum entries on one page, and the default.
const PAGE_MAX: usize = 1000;
/// Approximate size of a page.
const PAGE_BYTES: usize = 256 * 1024;

type Answer = Result<Response, Refusal>;

/// Returns the requested number of entries per page.
pub(super) fn page(limit: Option<&str>) -> Result<usize, Refusal> {
    let Some(limit) = limit else { return Ok(PAGE_MAX) };
    let wanted = limit.parse().ok().filter(|limit| (1..=PAGE_MAX).contains(limit));
    wanted.ok_or_else(|| Refusal::invalid("limit: must be a number from 1 to 1000"))
}

pub(super) async fn list(
    files: &Files,
    folder: Permitted<ToRead>,
    limit: usize,
    cursor: Option<String>,
) -> Answer {
    let asked = folder.clone();
    let folder = folder.into_inner().into_path().into_folder();
    let mut listing =
        files.blocking(move |content| content.list(&asked, cursor.as_deref(), limit)).await?;
    // A page ends when its bytes are used up, even below the requested limit. The client continues with the cursor.
    let n_shown = n_shown(&folder, &listing.entries);
    listing.has_more |= n_shown < listing.entries.len();
    listing.entries.truncate(n_shown);
    let last = listing.entries.last().map(|entry| entry.name.clone());
    let body = FolderShown {
        next_cursor: last.filter(|_| listing.has_more),
        has_more: listing.has_more,
        entries: listing.entries.into_iter().map(|entry| shown(&folder, entry)).collect(),
    };
    Ok(wire::answer(StatusCode::OK, body))
}

/// Returns how many entries fit on a page. Each is shown with its whole path.
fn n_shown(folder: &FilePath, entries: &[Entry]) -> usize {
    /// Approximate size of an entry without its path.
    const ENTRY_BYTES: usize = 128;
    let mut n_bytes = 0;
    let fits = |entry: &&Entry| {
        let is_shown = n_bytes < PAGE_BYTES;
        n_bytes += ENTRY_BYTES + folder.as_str().len() + entry.name.len();
        is_shown
    };
    entries.iter().take_while(fits).count()
}

fn shown(folder: &FilePath, entry: Entry) -> EntryShown {
    let Entry { name, facts, modified_ms } = entry;
    let (kind, slash) =
        if facts.is_some() { (EntryKind::File, "") } else { (EntryKind::Folder, "/") };
    EntryShown {
        path: format!("{folder}{name}{slash}"),
        kind,
        size: facts.as_ref().map(|facts| facts.size),
        content_type: facts.map(|facts| facts.kind),
        last_modified: modified_ms,
    }
}

pub(super) async fn make(files: &Files, session: &Session, folder: FilePath) -> Answer {
    session.look(files).await?;
    let asked = session.caller.permit(ToWrite::new(&files.app, folder.clone()))?;
    let mut hold = Hold::take(files, session, &asked, Reach::Itself, Change::Member).await?;
    let (making, path) = (files.clone(), folder.clone());
    let made = to_completion(async move {
        let made = write::locked(&making, &mut hold, move |content| content.make_folder(&asked));
        let made = made.await;
        if made.as_ref().is_ok_and(|made| *made) {
            hold.note("make-folder", &path, |act| act);
        }
        hold.leave().await?;
        made
    });
    let created = made.await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(wire::answer(status, FolderMade { path: folder.as_str(), created }))
}
