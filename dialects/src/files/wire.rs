//! The types of the API. Times are wall-clock milliseconds since 1970, for display only.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_core::{Holding, LeaseView, Owner, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::{Dialect, owner};

/// Builds a JSON response that must not be cached, because the state of locks and sessions changes at any time.
pub(super) fn answer(status: StatusCode, body: impl Serialize) -> Response {
    (status, [(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

/// The file is locked by another holder.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Locked {
    pub(super) error: &'static str,
    pub(super) message: &'static str,
    pub(super) locked_by: String,
    /// The principal of the holder; omitted if the holder is anonymous.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) principal: Option<String>,
    pub(super) locked_at: i64,
    /// `null` if the lock never expires, which is possible in some dialects.
    pub(super) expires_at: Option<i64>,
}

impl Locked {
    pub(super) fn new(
        app: &App,
        (owner, principal): (&str, Option<&str>),
        since: Timestamp,
        deadline: Option<Timestamp>,
    ) -> Self {
        Self {
            error: "File is locked",
            message: "This file is currently being edited by another session",
            locked_by: owner.into(),
            principal: principal.map(Into::into),
            locked_at: app.engine.wall_ms_of(since),
            expires_at: deadline.map(|deadline| app.engine.wall_ms_of(deadline)),
        }
    }

    pub(super) fn by(app: &App, lease: &LeaseView) -> Self {
        let owner = shown(&lease.owner, lease.dialect);
        let owner = (owner.as_str(), owner::vouched(&lease.owner));
        Self::new(app, owner, lease.granted_at, lease.deadline)
    }

    pub(super) fn by_holding(app: &App, holding: &Holding) -> Self {
        let dialect = holding.lease.map(|(dialect, _)| dialect);
        let owner = match (&holding.owner, dialect) {
            (Some(owner), Some(dialect)) => shown(owner, dialect),
            (Some(owner), None) => owner.instance.to_string(),
            // The lock is free, but reserved for the first waiter in the queue.
            (None, _) => "the next in the queue".into(),
        };
        let principal = holding.owner.as_ref().and_then(owner::vouched);
        Self::new(app, (&owner, principal), holding.granted_at, holding.deadline)
    }
}

/// Returns the name of an owner as others see it. For a session, this is the part of its id that proves nothing.
pub(super) fn shown(owner: &Owner, dialect: leasehold_core::Dialect) -> String {
    let dots = if dialect == Dialect::Files.number() { "..." } else { "" };
    format!("{}{dots}", owner::shown(dialect, owner))
}

/// A lock was acquired.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Acquired<'a> {
    pub(super) message: &'static str,
    pub(super) path: &'a str,
    pub(super) session_id: &'a str,
}

/// A lock was refreshed or released.
#[derive(Serialize, JsonSchema)]
pub(super) struct Done<'a> {
    pub(super) message: &'static str,
    pub(super) path: &'a str,
}

/// The state of a file's lock.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    pub(super) locked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lock: Option<LockShown>,
    pub(super) owned_by_this_session: bool,
}

/// A lock that is held.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LockShown {
    pub(super) path: String,
    pub(super) locked_by: String,
    /// The principal of the holder; omitted if the holder is anonymous.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) principal: Option<String>,
    pub(super) locked_at: i64,
    pub(super) expires_at: Option<i64>,
}

impl LockShown {
    pub(super) fn new(app: &App, path: &str, lease: &LeaseView) -> Self {
        let Locked { locked_by, principal, locked_at, expires_at, .. } = Locked::by(app, lease);
        Self { path: path.into(), locked_by, principal, locked_at, expires_at }
    }
}

/// A page of locks.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Locks {
    pub(super) locks: Vec<LockShown>,
    pub(super) next_cursor: Option<String>,
    pub(super) has_more: bool,
}

/// A session.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionShown {
    /// The whole id in the response that opens the session; only its beginning in later ones.
    pub(super) session_id: String,
    /// The rights of the caller that opened the session, on some files or on all: `read`, `write`.
    pub(super) permissions: Vec<&'static str>,
    pub(super) expires_at: i64,
}

/// The sessions of the caller.
#[derive(Serialize, JsonSchema)]
pub(super) struct Sessions {
    pub(super) sessions: Vec<SessionShown>,
}

/// A file was written.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Written<'a> {
    pub(super) path: &'a str,
    pub(super) size: u64,
    pub(super) content_type: &'a str,
    /// SHA-256 of the content, in hexadecimal.
    pub(super) hash: &'a str,
    pub(super) timestamp: i64,
    pub(super) created: bool,
}

/// The folder was created, or existed already.
#[derive(Serialize, JsonSchema)]
pub(super) struct FolderMade<'a> {
    pub(super) path: &'a str,
    pub(super) created: bool,
}

/// A page of a folder's entries.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct FolderShown {
    pub(super) entries: Vec<EntryShown>,
    pub(super) next_cursor: Option<String>,
    pub(super) has_more: bool,
}

/// An entry of a folder.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EntryShown {
    pub(super) path: String,
    #[serde(rename = "type")]
    pub(super) kind: EntryKind,
    /// `null` for a folder, as is the content type.
    pub(super) size: Option<u64>,
    pub(super) content_type: Option<String>,
    pub(super) last_modified: i64,
}

/// The kind of an entry.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum EntryKind {
    File,
    Folder,
}
