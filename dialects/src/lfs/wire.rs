//! The types of the API.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_base::calendar;
use leasehold_core::Timestamp;
use leasehold_core::{Dialect as Number, Holding, LeaseNumber, LeaseRecord, LeaseView, Owner};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::{Dialect, name_of, owner};

/// The media type of all bodies.
pub(super) const KIND: &str = "application/vnd.git-lfs+json";

/// Maximum length of a branch name that is stored with a lock. A longer one is omitted.
const REF_BYTES_MAX: usize = 255;

/// Builds a response of this dialect.
pub(super) fn answer(status: StatusCode, body: impl Serialize) -> Response {
    let headers = [(header::CONTENT_TYPE, KIND), (header::CACHE_CONTROL, "no-store")];
    (status, headers, Json(body)).into_response()
}

/// A branch. Locks apply to all branches.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Ref {
    /// The full name of the branch.
    #[serde(default)]
    pub(super) name: String,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct LockRequest {
    /// The path of the file, relative to the root of the repository.
    pub(super) path: String,
    /// The branch, stored with the lock for information only.
    #[serde(default)]
    pub(super) r#ref: Option<Ref>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct UnlockRequest {
    /// Unlock the file even if another user holds the lock.
    #[serde(default)]
    pub(super) force: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct VerifyRequest {
    /// Where to continue: the `next_cursor` of the previous page.
    #[serde(default)]
    pub(super) cursor: Option<String>,
    /// Maximum locks on the page.
    #[serde(default)]
    pub(super) limit: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct BatchRequest {
    /// `upload` or `download`.
    pub(super) operation: String,
    /// The transfers that the client supports; `basic` if omitted.
    #[serde(default)]
    pub(super) transfers: Option<Vec<String>>,
    /// The objects to transfer.
    pub(super) objects: Vec<Object>,
    /// The hash of object ids; `sha256` if omitted.
    #[serde(default)]
    pub(super) hash_algo: Option<String>,
}

/// An object.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) struct Object {
    /// The SHA-256 of the object's content.
    pub(super) oid: String,
    /// The size in bytes.
    pub(super) size: i64,
}

/// A lock.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct LockShown {
    /// The number of the lease.
    pub(super) id: String,
    /// The path of the file, relative to the root of the repository.
    pub(super) path: String,
    /// When the lock was acquired, in RFC 3339.
    pub(super) locked_at: String,
    /// The holder of the lock.
    pub(super) owner: OwnerShown,
}

#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct OwnerShown {
    /// The name of the holder.
    pub(super) name: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct LockAnswer {
    /// The lock that was acquired or released.
    pub(super) lock: LockShown,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Locks {
    /// The locks on this page.
    pub(super) locks: Vec<LockShown>,
    /// Where to continue; omitted on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Verified {
    /// The caller's locks.
    pub(super) ours: Vec<LockShown>,
    /// The locks of others.
    pub(super) theirs: Vec<LockShown>,
    /// Where to continue; omitted on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Batch {
    /// The transfer to use.
    pub(super) transfer: &'static str,
    /// The requested objects.
    pub(super) objects: Vec<ObjectShown>,
    /// The hash of object ids.
    pub(super) hash_algo: &'static str,
}

/// What to do with an object: nothing, if there is neither an action nor an error.
#[derive(Serialize, JsonSchema)]
pub(super) struct ObjectShown {
    #[serde(flatten)]
    pub(super) object: Object,
    /// The client does not have to authenticate for the actions.
    pub(super) authenticated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) actions: Option<Actions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<ObjectError>,
}

#[derive(Serialize, JsonSchema, Default)]
pub(super) struct Actions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) upload: Option<Action>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) download: Option<Action>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verify: Option<Action>,
}

/// A request that the client makes to transfer the object.
#[derive(Clone, Serialize, JsonSchema)]
pub(super) struct Action {
    /// The URL.
    pub(super) href: String,
    /// The headers to send.
    pub(super) header: BTreeMap<&'static str, String>,
    /// How many seconds the action is valid.
    pub(super) expires_in: u64,
}

/// Why an object cannot be transferred.
#[derive(Serialize, JsonSchema)]
pub(super) struct ObjectError {
    /// The HTTP status.
    pub(super) code: u16,
    /// The error message.
    pub(super) message: String,
}

/// The information that is stored with a lock.
#[derive(Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) repository: String,
    pub(super) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) r#ref: Option<String>,
}

/// The parts of a lease that this dialect uses.
pub(super) struct Held {
    pub(super) number: LeaseNumber,
    pub(super) dialect: Number,
    pub(super) owner: Owner,
    pub(super) granted_at: Timestamp,
    metadata: Option<std::sync::Arc<[u8]>>,
}

impl From<&LeaseView> for Held {
    fn from(lease: &LeaseView) -> Self {
        let LeaseView { id, dialect, owner, granted_at, metadata, .. } = lease.clone();
        Self { number: id.number, dialect, owner, granted_at, metadata }
    }
}

impl From<&LeaseRecord> for Held {
    fn from(lease: &LeaseRecord) -> Self {
        let LeaseRecord { number, dialect, owner, granted_at, metadata, .. } = lease.clone();
        Self { number, dialect, owner, granted_at, metadata }
    }
}

impl Held {
    /// Returns the conflicting lease. `None` if the lock is free, but others wait for it.
    pub(super) fn of(holding: Holding) -> Option<Self> {
        let Holding { owner, lease, granted_at, metadata, .. } = holding;
        let (dialect, number) = lease?;
        Some(Self { number, dialect, owner: owner?, granted_at, metadata })
    }

    /// Returns whether this owner acquired the lock through this dialect.
    pub(super) fn is_of(&self, owner: &Owner) -> bool {
        self.is_ours() && self.owner == *owner
    }

    /// Returns whether the lock was acquired through this dialect.
    pub(super) fn is_ours(&self) -> bool {
        self.dialect == Dialect::Lfs.number()
    }

    /// Returns whether the lock is on a file of another repository, whose name begins with this one's.
    pub(super) fn is_elsewhere(&self, repository: &str) -> bool {
        let note = self.metadata.as_deref().filter(|_| self.is_ours());
        let note = note.and_then(|note| serde_json::from_slice::<Note>(note).ok());
        note.is_some_and(|note| note.repository != repository)
    }

    /// Returns the name of the holder.
    pub(super) fn who(&self) -> String {
        let called = owner::called(self.dialect, &self.owner, self.metadata.as_deref());
        owner::named(&self.owner, &called)
    }

    /// Returns when the lock was acquired, such as `2026-11-15 14:53 UTC`.
    pub(super) fn since(&self, app: &App) -> String {
        format!("{} UTC", calendar::to_minutes(app.engine.wall_ms_of(self.granted_at)))
    }

    /// Describes the holder, such as `bob since 2026-11-15 14:53 UTC`. Names the dialect if it is another.
    pub(super) fn in_words(&self, app: &App) -> String {
        let (who, since) = (self.who(), self.since(app));
        match self.is_ours() {
            true => format!("{who} since {since}"),
            false => format!("{who} through {} since {since}", name_of(self.dialect)),
        }
    }

    pub(super) fn shown(&self, app: &App, path: &str) -> LockShown {
        LockShown {
            id: self.number.0.to_string(),
            path: path.to_owned(),
            locked_at: calendar::to_seconds(app.engine.wall_ms_of(self.granted_at)),
            owner: OwnerShown { name: self.who() },
        }
    }
}

/// Returns the information to store with the lock of a file.
pub(super) fn note(repository: &str, path: &str, branch: Option<Ref>) -> Vec<u8> {
    let branch = branch.map(|branch| branch.name);
    let branch = branch.filter(|name| (1..=REF_BYTES_MAX).contains(&name.len()));
    let note = Note { repository: repository.to_owned(), path: path.to_owned(), r#ref: branch };
    serde_json::to_vec(&note).unwrap_or_default()
}
