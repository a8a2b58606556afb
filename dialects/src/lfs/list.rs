//! Endpoints that list locked files.

use axum::http::StatusCode;
use leasehold_auth::{Caller, View};
use leasehold_core::{LockKey, LockView};
use leasehold_engine::{Filter, ListLocks, ReadLock, Standing};
use schemars::JsonSchema;
use serde::Deserialize;

use super::error::Refusal;
use super::lock::find;
use super::repository::Repository;
use super::wire::{self, Held, LockShown, Locks, Verified, VerifyRequest};
use super::{Answer, Asked, Lfs};
use crate::http::pieces::PIECE_BYTES;
use crate::{cursor, grip, query};

const LIMIT_DEFAULT: u64 = 100;
const LIMIT_MAX: u64 = 1000;

/// The query parameters. Locks apply to all branches, so `refspec` is ignored.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Params {
    /// Return only the lock of this file.
    path: Option<String>,
    /// Return only the lock with this id.
    id: Option<String>,
    /// Where to continue: the `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Maximum locks on the page. There can be fewer even if the list continues.
    limit: Option<u64>,
    /// Ignored, because locks apply to all branches.
    #[expect(dead_code, reason = "for the contract")]
    refspec: Option<String>,
}

/// Handles `GET locks`: lists all locks, or one by its path or id.
pub(super) async fn list(lfs: &Lfs, asked: Asked) -> Answer {
    let Asked { repository, caller, parts, .. } = asked;
    let params: Params = query::parse(&parts.uri).map_err(Refusal::invalid)?;
    let mut next_cursor = None;
    let held = match (given(params.path), given(params.id)) {
        (None, None) => {
            let page = page(lfs, &caller, &repository, params.cursor, params.limit).await?;
            next_cursor = page.next_cursor;
            page.held
        }
        (path, None) => at(lfs, &caller, &repository, &path.unwrap_or_default()).await?,
        (path, Some(id)) => {
            let lease = find(lfs, &caller, &repository, &id).await?;
            let found = lease.and_then(|lease| {
                Some((repository.path(&lease.lock)?.to_owned(), Held::from(&lease)))
            });
            let is_meant = |(known, _): &(String, Held)| path.as_ref().is_none_or(|p| p == known);
            found.filter(is_meant).into_iter().collect()
        }
    };
    let locks = held.iter().map(|(path, held)| held.shown(&lfs.app, path)).collect();
    Ok(wire::answer(StatusCode::OK, Locks { locks, next_cursor }))
}

/// Handles `POST locks/verify`: lists the caller's locks and those of others.
pub(super) async fn verify(lfs: &Lfs, asked: Asked) -> Answer {
    let owner = asked.owner();
    let (repository, caller) = (asked.repository.clone(), asked.caller.clone());
    let VerifyRequest { cursor, limit } = asked.json(lfs).await?;
    let page = page(lfs, &caller, &repository, cursor, limit).await?;
    let (ours, theirs): (Vec<_>, Vec<_>) =
        page.held.iter().partition(|(_, held)| held.is_of(&owner));
    let shown = |all: Vec<&(String, Held)>| -> Vec<LockShown> {
        all.into_iter().map(|(path, held)| held.shown(&lfs.app, path)).collect()
    };
    let (ours, theirs, next_cursor) = (shown(ours), shown(theirs), page.next_cursor);
    Ok(wire::answer(StatusCode::OK, Verified { ours, theirs, next_cursor }))
}

/// Treats an empty parameter as a missing one.
fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

async fn at(
    lfs: &Lfs,
    caller: &Caller,
    repository: &Repository,
    path: &str,
) -> Result<Vec<(String, Held)>, Refusal> {
    let key = repository.lock(&lfs.app, path)?;
    let read = caller.permit(ReadLock { key: key.clone(), n_queue_max: 0 })?;
    let view = lfs.app.engine.ask(read).await??;
    Ok(holders(repository, &key, &view).collect())
}

fn holders(
    repository: &Repository,
    lock: &LockKey,
    view: &LockView,
) -> impl Iterator<Item = (String, Held)> {
    let path = repository.path(lock).map(str::to_owned);
    let here = view.holders.iter().map(Held::from);
    let here = here.filter(|held| !held.is_elsewhere(repository.name()));
    path.into_iter().flat_map(move |path| here.clone().map(move |held| (path.clone(), held)))
}

struct LockPage {
    held: Vec<(String, Held)>,
    next_cursor: Option<String>,
}

async fn page(
    lfs: &Lfs,
    caller: &Caller,
    repository: &Repository,
    cursor: Option<String>,
    limit: Option<u64>,
) -> Result<LockPage, Refusal> {
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if limit == 0 {
        return Err(Refusal::invalid("limit: must be at least 1"));
    }
    let limit = limit.min(LIMIT_MAX) as usize;
    let not_ours = || Refusal::invalid("cursor: not a cursor of this server");
    let after = given(cursor).map(|text| cursor::parse(&text).ok_or_else(not_ours));
    let mut filter = Filter {
        namespace: (*lfs.app.dialect.lfs.namespace).into(),
        prefix: repository.prefix().into(),
        owner: None,
        standing: Some(Standing::Held),
        n_max: limit,
        after: after.transpose()?,
        view: View::default(),
        leave_out: grip::leave_out(&lfs.app, &lfs.app.dialect.lfs.namespace),
    };
    let (mut held, mut n_bytes, mut last, mut is_over) = (Vec::new(), 0, None, false);
    // A page ends when its bytes are used up, even below the requested limit. The client continues with the cursor.
    while !is_over && filter.n_max > 0 && n_bytes < PIECE_BYTES {
        let page = lfs.app.engine.list(caller.permit(ListLocks(filter.clone()))?).await?;
        n_bytes += page.n_bytes;
        filter.n_max -= page.locks.len();
        held.extend(page.locks.iter().flat_map(|(key, view)| holders(repository, key, view)));
        // The cursor is the last name in this response. The engine's own cursor can be a name that the caller cannot
        // see.
        last = page.locks.last().map(|(key, _)| cursor::of(&key.name)).or(last);
        (is_over, filter.after) = (page.next.is_none(), page.next);
    }
    Ok(LockPage { held, next_cursor: last.filter(|_| !is_over) })
}
