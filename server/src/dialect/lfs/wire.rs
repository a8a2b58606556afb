//! What goes over the wire.

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
use crate::dialect::{Dialect, name_of, owner};

/// What all its bodies are.
pub(super) const KIND: &str = "application/vnd.git-lfs+json";

/// The name of a branch is kept with a lock unless it is longer.
const REF_BYTES_MAX: usize = 255;

/// An answer in the shape of this dialect.
pub(super) fn answer(status: StatusCode, body: impl Serialize) -> Response {
    let headers = [(header::CONTENT_TYPE, KIND), (header::CACHE_CONTROL, "no-store")];
    (status, headers, Json(body)).into_response()
}

/// A branch. Locks are for all of them.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Ref {
    /// Its full name.
    #[serde(default)]
    pub(super) name: String,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct LockRequest {
    /// The file, from the root of the repository.
    pub(super) path: String,
    /// Kept with the lock, for people.
    #[serde(default)]
    pub(super) r#ref: Option<Ref>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct UnlockRequest {
    /// Also if it is another's.
    #[serde(default)]
    pub(super) force: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct VerifyRequest {
    /// Where the list goes on.
    #[serde(default)]
    pub(super) cursor: Option<String>,
    /// At most this many.
    #[serde(default)]
    pub(super) limit: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct BatchRequest {
    /// `upload` or `download`.
    pub(super) operation: String,
    /// How the client can move objects; `basic` unless said.
    #[serde(default)]
    pub(super) transfers: Option<Vec<String>>,
    /// Which.
    pub(super) objects: Vec<Object>,
    /// `sha256` unless said.
    #[serde(default)]
    pub(super) hash_algo: Option<String>,
}

/// An object, as a client knows it.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) struct Object {
    /// The SHA-256 of its content.
    pub(super) oid: String,
    /// In bytes.
    pub(super) size: i64,
}

/// A lock.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct LockShown {
    /// The number of its lease.
    pub(super) id: String,
    /// The file, from the root of the repository.
    pub(super) path: String,
    /// Since when, in RFC 3339.
    pub(super) locked_at: String,
    /// Who has it.
    pub(super) owner: OwnerShown,
}

#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct OwnerShown {
    /// What they are called.
    pub(super) name: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct LockAnswer {
    /// It.
    pub(super) lock: LockShown,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Locks {
    /// These.
    pub(super) locks: Vec<LockShown>,
    /// Where the list goes on, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Verified {
    /// Those of whoever asks.
    pub(super) ours: Vec<LockShown>,
    /// Those of others.
    pub(super) theirs: Vec<LockShown>,
    /// Where the list goes on, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Batch {
    /// How to move them.
    pub(super) transfer: &'static str,
    /// Each object that was asked for.
    pub(super) objects: Vec<ObjectShown>,
    /// What names are made by.
    pub(super) hash_algo: &'static str,
}

/// What to do with an object: nothing, if there is neither an action nor an error.
#[derive(Serialize, JsonSchema)]
pub(super) struct ObjectShown {
    #[serde(flatten)]
    pub(super) object: Object,
    /// The client need not say who it is.
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

/// A request to make.
#[derive(Clone, Serialize, JsonSchema)]
pub(super) struct Action {
    /// Where.
    pub(super) href: String,
    /// With these headers.
    pub(super) header: BTreeMap<&'static str, String>,
    /// For this many seconds.
    pub(super) expires_in: u64,
}

/// Why nothing can be done with an object.
#[derive(Serialize, JsonSchema)]
pub(super) struct ObjectError {
    /// A status of HTTP.
    pub(super) code: u16,
    /// In words.
    pub(super) message: String,
}

/// What is kept with a lock.
#[derive(Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) repository: String,
    pub(super) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) r#ref: Option<String>,
}

/// A lease, as far as it matters here.
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
    /// Whoever is in the way. `None`: others wait for it.
    pub(super) fn of(holding: Holding) -> Option<Self> {
        let Holding { owner, lease, granted_at, metadata, .. } = holding;
        let (dialect, number) = lease?;
        Some(Self { number, dialect, owner: owner?, granted_at, metadata })
    }

    /// Was it taken through this dialect by this owner?
    pub(super) fn is_of(&self, owner: &Owner) -> bool {
        self.is_ours() && self.owner == *owner
    }

    /// Was it taken through this dialect?
    pub(super) fn is_ours(&self) -> bool {
        self.dialect == Dialect::Lfs.number()
    }

    /// Is it on a file of another repository, whose name begins with the name of this one?
    pub(super) fn is_elsewhere(&self, repository: &str) -> bool {
        let note = self.metadata.as_deref().filter(|_| self.is_ours());
        let note = note.and_then(|note| serde_json::from_slice::<Note>(note).ok());
        note.is_some_and(|note| note.repository != repository)
    }

    /// What its owner is called, and through which dialect if it is another.
    pub(super) fn who(&self) -> String {
        let called = owner::called(self.dialect, &self.owner, self.metadata.as_deref());
        owner::named(&self.owner, &called)
    }

    /// `2026-11-15 14:53 UTC`
    pub(super) fn since(&self, app: &App) -> String {
        format!("{} UTC", calendar::to_minutes(app.engine.wall_ms_of(self.granted_at)))
    }

    /// `bob since 2026-11-15 14:53 UTC`
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

/// What is kept with the lock of a file.
pub(super) fn note(repository: &str, path: &str, branch: Option<Ref>) -> Vec<u8> {
    let branch = branch.map(|branch| branch.name);
    let branch = branch.filter(|name| (1..=REF_BYTES_MAX).contains(&name.len()));
    let note = Note { repository: repository.to_owned(), path: path.to_owned(), r#ref: branch };
    serde_json::to_vec(&note).unwrap_or_default()
}
