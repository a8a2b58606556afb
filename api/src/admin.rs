//! Requests of operators: backups, revocations by owner, the state of the auth file, maintenance and sessions.

use serde::{Deserialize, Serialize};

/// `POST /v1/admin/backup`: 201.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BackupTaken {
    /// The backup's name below the server's `backup-dir`.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// `POST /v1/revoke`: exactly one of `owner`, `session` and `principal`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RevokeAllRequest {
    /// Revoke every lease of this owner, in all namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Revoke every lease of the session with this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// Revoke every lease of this principal, whatever its owners are called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Why. It is kept in the events.
    pub reason: String,
    /// Only say what would be revoked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// 200: these leases were revoked, or would be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct RevokedAll {
    pub dry_run: bool,
    pub n_revoked: u64,
    /// Which they are; no more than 1000.
    pub revoked: Vec<RevokedFrom>,
}

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct RevokedFrom {
    pub namespace: String,
    pub lock_name: String,
    pub owner_id: String,
    /// The principal of that owner; omitted if the owner is not authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// 0 if it was waiting.
    pub fencing_token: u64,
    /// It was waiting for the lock.
    pub waiting: bool,
}

/// `GET /v1/admin/auth`: the auth file in force.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuthState {
    /// The hash of the auth file and of all files it names, as last loaded; `null` without authentication.
    pub hash: Option<String>,
    /// For how long the files have been unusable. Until they are good again, those from before stay in force.
    pub stale_seconds: u64,
}

/// `PUT /v1/admin/maintenance`: while it is on, acquires are refused; renewals and releases work.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MaintenanceRequest {
    /// Maintenance is to be on.
    pub on: bool,
}

/// `GET` and `PUT /v1/admin/maintenance`: whether maintenance is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Maintenance {
    /// Maintenance is on.
    pub on: bool,
}

/// `GET /v1/admin/sessions`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct SessionList {
    pub sessions: Vec<SessionState>,
    /// Where to go on; `null` at the end.
    pub next_cursor: Option<String>,
}

/// A session as an operator sees it: never with its id, which is a secret.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct SessionState {
    /// Its public number.
    pub number: u64,
    /// The dialect that opened it.
    pub dialect: String,
    pub owner_id: String,
    pub principal: String,
    pub ttl_ms: u64,
    pub expires_in_ms: u64,
    /// How many leases it has, held and waiting.
    pub n_leases: u32,
}
