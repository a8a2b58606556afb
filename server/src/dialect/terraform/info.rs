//! Who has a lock, in the shape that Terraform sends and reads.

use leasehold_core::{Dialect as Number, Holding, LeaseView, Owner, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::dialect::{Dialect, calendar, name_of};

/// So much of an id is shown to others: enough to know it again, too little to prove anything.
const SHOWN_CHARS: usize = 8;

/// What Terraform says of a lock.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub(super) struct LockInfo {
    /// The id of the lock, chosen by the client. Of somebody else's lock: its beginning, and who has it since when.
    #[serde(rename = "ID")]
    pub(super) id: String,
    /// What it is taken for.
    #[serde(default)]
    pub(super) operation: String,
    /// Anything else.
    #[serde(default)]
    pub(super) info: String,
    /// Who takes it, as user@host.
    #[serde(default)]
    pub(super) who: String,
    /// The version of Terraform.
    #[serde(default)]
    pub(super) version: String,
    /// Since when, in RFC 3339.
    #[serde(default)]
    pub(super) created: String,
    /// Empty.
    #[serde(default)]
    pub(super) path: String,
}

/// A lease, as far as it matters to somebody else.
struct Held<'a> {
    dialect: Number,
    owner: &'a Owner,
    granted_at: Timestamp,
    metadata: Option<&'a [u8]>,
}

impl LockInfo {
    pub(super) fn of_lease(app: &App, lease: &LeaseView) -> Self {
        let LeaseView { dialect, owner, granted_at, metadata, .. } = lease;
        let (dialect, granted_at) = (*dialect, *granted_at);
        Self::of(app, &Held { dialect, owner, granted_at, metadata: metadata.as_deref() })
    }

    /// Of whoever is in the way. If nobody holds the lock, others wait for it.
    pub(super) fn of_holding(app: &App, holding: &Holding) -> Self {
        match (&holding.owner, holding.lease) {
            (Some(owner), Some((dialect, _))) => {
                let (granted_at, metadata) = (holding.granted_at, holding.metadata.as_deref());
                Self::of(app, &Held { dialect, owner, granted_at, metadata })
            }
            _ => Self { id: "others wait for this lock".into(), ..Self::now(app) },
        }
    }

    /// Of a lock that is kept for somebody.
    pub(super) fn reserved(app: &App, owner: &Owner) -> Self {
        let who = owner.instance.to_string();
        Self { id: format!("reserved for its last holder, {who}"), who, ..Self::now(app) }
    }

    fn now(app: &App) -> Self {
        let created = calendar::to_millis(app.engine.wall_ms());
        Self { created, ..Self::default() }
    }

    /// Old versions of Terraform print the id and nothing else, so it says who has the lock.
    fn of(app: &App, held: &Held<'_>) -> Self {
        let created = calendar::to_millis(app.engine.wall_ms_of(held.granted_at));
        let own = own(held.dialect, held.metadata);
        let since = calendar::to_minutes(app.engine.wall_ms_of(held.granted_at));
        match own {
            Some(info) => {
                let shown: String = info.id.chars().take(SHOWN_CHARS).collect();
                let who = if info.who.is_empty() { &*held.owner.principal } else { &*info.who };
                let id = format!("{shown}... (held by {who} since {since} UTC)");
                Self { id, created, ..info }
            }
            None => {
                let (who, through) = (held.owner.instance.to_string(), name_of(held.dialect));
                let id = format!("held by {who} through {through} since {since} UTC");
                Self { id, who, operation: through, created, ..Self::default() }
            }
        }
    }
}

/// What Terraform said of a lock that is its.
fn own(dialect: Number, metadata: Option<&[u8]>) -> Option<LockInfo> {
    let own = metadata.filter(|_| dialect == Dialect::Terraform.number())?;
    serde_json::from_slice(own).ok()
}

/// Who took a lock through Terraform, as user@host: the owner of its lease is an id.
pub(in crate::dialect) fn who(dialect: Number, metadata: Option<&[u8]>) -> Option<String> {
    own(dialect, metadata).map(|info| info.who).filter(|who| !who.is_empty())
}
