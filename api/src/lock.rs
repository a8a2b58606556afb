//! Locks: acquire, renew, release, look, list, revoke.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `POST {lock}/acquire`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AcquireRequest {
    /// Who wants it.
    pub owner_id: String,
    /// How long the lease lasts; may be left out with a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Repeating it repeats the answer, not the effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Wait in the queue this long instead of being refused at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// With whom it is shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Up to this many holders at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// How long after expiry only this owner may take the lock again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// Shown to whoever looks at the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// The session it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// With whom a lease shares its lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", try_from = "String")]
#[cfg_attr(feature = "schema", schemars(!try_from))]
pub enum Mode {
    /// With nobody.
    Exclusive,
    /// With other shared ones.
    Shared,
}

/// Through a text, so that anything else is told to be no text.
impl TryFrom<String> for Mode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "exclusive" => Ok(Mode::Exclusive),
            "shared" => Ok(Mode::Shared),
            _ => Err(format!("{text:?} is neither \"exclusive\" nor \"shared\"")),
        }
    }
}

/// 200: it is yours.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct Acquired {
    pub acquired: bool,
    pub lock_name: String,
    pub owner_id: String,
    /// Proof of ownership: a secret.
    pub lease_id: String,
    /// Pass it to whatever the lock protects.
    pub fencing_token: u64,
    /// Epoch milliseconds, for display only; `null` if it never expires.
    pub lease_expiry_ms: Option<i64>,
    /// Time left when this answer was made; `null` if it never expires.
    pub expires_in_ms: Option<u64>,
    /// From the time the request was sent, the lease lasts at least this long; `null` if it never expires.
    // If it is missing, the server is too old to be trusted with a deadline: that must not look like "never".
    #[serde(deserialize_with = "Option::deserialize")]
    pub expires_after_send_ms: Option<u64>,
}

/// 409: it is somebody else's.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct NotAcquired {
    pub acquired: bool,
    pub lock_name: String,
    pub current_owner_id: Option<String>,
    pub current_expiry_ms: Option<i64>,
    /// What the holder wants to be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_metadata: Option<Value>,
    pub recommended_retry_ms: u64,
    pub reason: Reason,
    /// In words.
    pub error: String,
}

/// Why a lock could not be had, or a lease not be renewed or released.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Reason {
    /// Somebody has it.
    Held,
    /// Another process holds the database; nothing was done.
    BusyRetry,
    /// Its last owner may still take it back.
    Grace,
    /// Too many wait for it.
    QueueFull,
    /// It did not become free within `wait_ms`.
    WaitTimeout,
    /// The lease is not the caller's, or has expired.
    NotOwnerOrExpired,
    /// The lease is not the caller's.
    NotOwner,
    /// The lease has expired.
    Expired,
}

/// `POST {lock}/renew`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as the acquire was answered")]
pub struct RenewRequest {
    pub owner_id: String,
    pub lease_id: String,
    pub fencing_token: u64,
    /// The lease then lasts at least this long from now.
    pub extend_by_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// 200: it lasts until then.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct Renewed {
    pub renewed: bool,
    /// Epoch milliseconds, for display only; `null` if it never expires.
    pub lease_expiry_ms: Option<i64>,
    /// Time left when this answer was made; `null` if it never expires.
    pub expires_in_ms: Option<u64>,
    /// From the time the request was sent, the lease lasts at least this long; `null` if it never expires.
    #[serde(deserialize_with = "Option::deserialize")]
    pub expires_after_send_ms: Option<u64>,
}

/// 409: there is nothing to renew.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct NotRenewed {
    pub renewed: bool,
    pub reason: Reason,
    /// In words.
    pub error: String,
}

/// `POST {lock}/release`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as the acquire was answered")]
pub struct ReleaseRequest {
    pub owner_id: String,
    pub lease_id: String,
    pub fencing_token: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// 200: it is given back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct Released {
    pub released: bool,
}

/// 409: it was not the caller's to give back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct NotReleased {
    pub released: bool,
    pub reason: Reason,
    /// In words.
    pub error: String,
}

/// `GET {lock}`: what is true of a lock right now.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct LockState {
    pub lock_name: String,
    pub held: bool,
    /// The token of its latest grant.
    pub last_token: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fencing_token: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_expiry_ms: Option<i64>,
    /// Of the latest grant: one more with every change of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Holder>,
    /// All who have it, also those not listed because they are too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_holders: usize,
    /// There whenever it is held or waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Vec<Waiter>>,
    /// All who wait, also those not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_waiting: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Who may take it back before all others, and for how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_owner_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_remaining_ms: Option<u64>,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// One who has a lock.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct Holder {
    pub owner_id: String,
    pub fencing_token: u64,
    pub mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    pub lease_expiry_ms: Option<i64>,
    pub expires_in_ms: Option<u64>,
    pub held_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

/// One who waits for a lock.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct Waiter {
    pub owner_id: String,
    /// 1 is next.
    pub position: usize,
    pub waiting_ms: u64,
    /// Its client is away: it is skipped until it comes back.
    pub parked: bool,
}

/// `GET /v1/locks`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct LockList {
    pub locks: Vec<LockState>,
    /// Where to go on; `null` at the end.
    pub next_cursor: Option<String>,
}

/// `POST {lock}/revoke`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RevokeRequest {
    /// Why.
    pub reason: String,
}

/// 200: these leases are over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct Revoked {
    pub lock_name: String,
    pub revoked: Vec<RevokedLease>,
}

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct RevokedLease {
    pub owner_id: String,
    pub fencing_token: u64,
}
