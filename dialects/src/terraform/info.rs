//! Information about the holder of a lock, in the format that Terraform sends and reads.

use leasehold_base::calendar;
use leasehold_core::{Dialect as Number, Holding, LeaseView, Owner, Timestamp};
use leasehold_engine::owner::WITHOUT_LOCK;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::{Dialect, name_of, owner};

/// Terraform's information about a lock.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub(super) struct LockInfo {
    /// The id of the lock, chosen by the client. If another client holds the lock: the beginning of the id, the holder,
    /// and when the lock was acquired.
    #[serde(rename = "ID")]
    pub(super) id: String,
    /// The operation that needs the lock.
    #[serde(default)]
    pub(super) operation: String,
    /// Additional information.
    #[serde(default)]
    pub(super) info: String,
    /// The user that acquires the lock, as user@host.
    #[serde(default)]
    pub(super) who: String,
    /// The version of Terraform.
    #[serde(default)]
    pub(super) version: String,
    /// When the lock was acquired, in RFC 3339.
    #[serde(default)]
    pub(super) created: String,
    /// Empty: Terraform does not use it with this backend.
    #[serde(default)]
    pub(super) path: String,
}

/// The parts of a lease that other clients can see.
struct VisibleLease<'a> {
    dialect: Number,
    owner: &'a Owner,
    granted_at: Timestamp,
    metadata: Option<&'a [u8]>,
}

impl LockInfo {
    pub(super) fn of_lease(app: &App, lease: &LeaseView) -> Self {
        let LeaseView { dialect, owner, granted_at, metadata, .. } = lease;
        let (dialect, granted_at) = (*dialect, *granted_at);
        Self::of(app, &VisibleLease { dialect, owner, granted_at, metadata: metadata.as_deref() })
    }

    /// Describes the conflicting lease. If the lock is not held, others wait for it.
    pub(super) fn of_holding(app: &App, holding: &Holding) -> Self {
        match (&holding.owner, holding.lease) {
            (Some(owner), Some((dialect, _))) => {
                let (granted_at, metadata) = (holding.granted_at, holding.metadata.as_deref());
                Self::of(app, &VisibleLease { dialect, owner, granted_at, metadata })
            }
            _ => Self { id: "others wait for this lock".into(), ..Self::now(app) },
        }
    }

    /// Describes a lock that is reserved for its last holder.
    pub(super) fn reserved(app: &App, owner: &Owner) -> Self {
        let who = owner::named(owner, &owner::plain(&owner.instance));
        Self { id: format!("reserved for its last holder, {who}"), who, ..Self::now(app) }
    }

    fn now(app: &App) -> Self {
        let created = calendar::to_millis(app.engine.wall_ms());
        Self { created, ..Self::default() }
    }

    /// Describes a lease. Old versions of Terraform print only the id, so the id also names the holder. The name that
    /// the holder chose is shown together with its authenticated principal.
    fn of(app: &App, held: &VisibleLease<'_>) -> Self {
        let created = calendar::to_millis(app.engine.wall_ms_of(held.granted_at));
        let since = calendar::to_minutes(app.engine.wall_ms_of(held.granted_at));
        let VisibleLease { dialect, owner, metadata, .. } = *held;
        match own(dialect, metadata) {
            Some(info) => {
                let shown = shortened(&info.id);
                let who = owner::named(owner, &owner::plain(&info.who));
                let by = if who.is_empty() { owner.principal.to_string() } else { who.clone() };
                let id = format!("{shown} (held by {by} since {since} UTC)");
                let plain = |text: &str| owner::plain(text).into_owned();
                Self {
                    id,
                    operation: plain(&info.operation),
                    info: plain(&info.info),
                    who,
                    version: plain(&info.version),
                    created,
                    path: plain(&info.path),
                }
            }
            None => {
                let who = owner::named(owner, &owner::called(dialect, owner, metadata));
                let through = name_of(dialect);
                let id = format!("held by {who} through {through} since {since} UTC");
                Self { id, who, operation: through, created, ..Self::default() }
            }
        }
    }

    /// Checks that no field contains control characters, which would reach the terminals of other users. Terraform
    /// never sends any.
    pub(super) fn check(&self) -> Result<(), String> {
        let Self { id, operation, info, who, version, created, path } = self;
        for (name, text) in [
            ("ID", id),
            ("Operation", operation),
            ("Info", info),
            ("Who", who),
            ("Version", version),
            ("Created", created),
            ("Path", path),
        ] {
            if text.contains(char::is_control) {
                return Err(format!("{name}: must not contain control characters"));
            }
        }
        if id.is_empty() { Err("ID: is empty".into()) } else { Ok(()) }
    }
}

/// Returns the beginning of an id.
fn shortened(id: &str) -> String {
    owner::plain(&owner::shortened(id)).into()
}

/// Returns Terraform's lock info with the lock id shortened.
pub(crate) fn shown(metadata: &[u8]) -> Vec<u8> {
    let mut said: serde_json::Value = serde_json::from_slice(metadata).unwrap_or_default();
    if let Some(id) = said.get_mut("ID") {
        *id = id.as_str().map(owner::shortened).into();
    }
    let shown = if said.is_object() { said } else { serde_json::Value::Null };
    shown.to_string().into_bytes()
}

/// Returns the lock info that Terraform sent, if the lease was granted through this dialect.
fn own(dialect: Number, metadata: Option<&[u8]>) -> Option<LockInfo> {
    let own = metadata.filter(|_| dialect == Dialect::Terraform.number())?;
    serde_json::from_slice(own).ok()
}

/// Returns who acquired a lock through Terraform, as user@host. The owner of the lease is the lock id, which proves the
/// lock, so it is not shown whole.
pub(crate) fn who(dialect: Number, owner: &Owner, metadata: Option<&[u8]>) -> Option<String> {
    if dialect != Dialect::Terraform.number() {
        return None;
    }
    let who = own(dialect, metadata).map(|info| info.who).filter(|who| !who.is_empty());
    Some(who.unwrap_or_else(|| match owner.instance.starts_with(WITHOUT_LOCK) {
        true => WITHOUT_LOCK.into(),
        false => shortened(&owner.instance),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_would_be_shown_has_no_control_characters() {
        let info = |id: &str, who: &str| LockInfo {
            id: id.into(),
            who: who.into(),
            ..LockInfo::default()
        };
        assert_eq!(info("a", "ann@läptop").check(), Ok(()));
        assert!(info("a\u{1b}[2J", "").check().is_err_and(|why| why.starts_with("ID: ")));
        assert!(info("a", "ann\nroot").check().is_err_and(|why| why.starts_with("Who: ")));
        assert!(info("", "").check().is_err_and(|why| why == "ID: is empty"));
    }
}
