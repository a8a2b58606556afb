//! Endpoints for administrators: list all locks on files, and revoke one.

use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use leasehold_auth::{Caller, Right, View};
use leasehold_core::{LeaseView, LockKey, LockView, Revoke, Target};
use leasehold_engine::{Filter, ListLocks, Standing};
use serde::Deserialize;

use super::error::Refusal;
use super::wire::{self, Done, LockShown, Locks};
use super::{Files, folder};
use crate::content::FilePath;
use crate::http::pieces::PIECE_BYTES;
use crate::operator;
use crate::{cursor, grip};

type Answer = Result<Response, Refusal>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    limit: Option<String>,
    cursor: Option<String>,
}

pub(super) async fn list(State(files): State<Files>, caller: Caller, uri: Uri) -> Answer {
    let Query(Params { limit, cursor }) = Query::try_from_uri(&uri)
        .map_err(|error| Refusal::invalid(format!("the query: {}", error.body_text())))?;
    let limit = folder::page(limit.as_deref())?;
    let not_ours = || Refusal::invalid("cursor: not a cursor of this server");
    let mut after = cursor.map(|c| cursor::parse(&c).ok_or_else(not_ours)).transpose()?;
    let (mut last, mut is_over) = (None, false);
    let (mut locks, mut n_bytes) = (Vec::new(), 0);
    // A page ends when its bytes are used up, even below the requested limit. The client continues with the cursor.
    while !is_over && locks.len() < limit && n_bytes < PIECE_BYTES {
        let filter = filter(&files, limit - locks.len(), after);
        // The purpose of this list is to revoke locks, so it requires that right.
        let list = caller.permit_list(Right::Revoke, ListLocks(filter))?;
        let page = files.app.engine.list(list).await?;
        n_bytes += page.n_bytes;
        locks.extend(page.locks.iter().filter_map(|(key, view)| shown(&files, key, view)));
        // The cursor is the last name in this response. The engine's own cursor can be a name that the caller cannot
        // see.
        last = page.locks.last().map(|(key, _)| cursor::of(&key.name)).or(last);
        (is_over, after) = (page.next.is_none(), page.next);
    }
    let next_cursor = last.filter(|_| !is_over);
    let body = Locks { locks, has_more: next_cursor.is_some(), next_cursor };
    Ok(wire::answer(StatusCode::OK, body))
}

fn filter(files: &Files, n_max: usize, after: Option<Box<str>>) -> Filter {
    Filter {
        namespace: (*files.app.dialect.files.namespace).into(),
        prefix: "/".into(),
        owner: None,
        standing: Some(Standing::Held),
        n_max,
        after,
        view: View::default(),
        leave_out: grip::leave_out(&files.app, &files.app.dialect.files.namespace),
    }
}

fn shown(files: &Files, key: &LockKey, view: &LockView) -> Option<LockShown> {
    let lease: &LeaseView = view.holders.first()?;
    // If the path is too long for a lock's name, the lease contains the whole path.
    let whole = grip::path_of(lease).filter(|path| path.len() > files.app.limits.name_bytes_max);
    Some(LockShown::new(&files.app, whole.as_deref().unwrap_or(&key.name), lease))
}

pub(super) async fn revoke(State(files): State<Files>, caller: Caller, uri: Uri) -> Answer {
    let raw = uri.path().strip_prefix("/admin/locks").unwrap_or_default();
    let path = FilePath::parse(raw)?;
    let lock = path.lock(&files.app);
    let target = Target::Lock(lock.clone());
    let revoke = Revoke { target, reason: "revoked by an admin".into() };
    let ended = files.app.engine.ask(caller.permit(revoke)?).await??;
    if ended.is_empty() {
        return Err(Refusal::no_lock());
    }
    grip::loosen(&files.app, &lock, &caller, &ended).await;
    let is_from_others = operator::is_from_others(&caller, &ended);
    files.app.note_taken(&caller, "revoke", is_from_others, |act| act.on(&lock));
    let body = Done { message: "Lock revoked", path: path.as_str() };
    Ok(wire::answer(StatusCode::OK, body))
}
