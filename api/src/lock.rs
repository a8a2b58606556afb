//! Locks: acquire, renew, release, read, list, revoke.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `POST {lock}/acquire`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AcquireRequest {
    /// The id of the owner that acquires the lock.
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
    /// Whether the lease is exclusive or shared; exclusive if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Counted mode: the number of holders the lock may have at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// How long after expiry only this owner may take the lock again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// Any JSON; shown to clients that read the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// The session the lease belongs to: it ends with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Whether a lease shares its lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", try_from = "String")]
#[cfg_attr(feature = "schema", schemars(!try_from))]
pub enum Mode {
    /// One holder at a time.
    Exclusive,
    /// Together with other shared leases, never with an exclusive one.
    Shared,
}

/// Converts from a string, so that the error for any other JSON type is that it is not a string.
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

/// 200: the lock is acquired.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct Acquired {
    pub acquired: bool,
    pub lock_name: String,
    pub owner_id: String,
    /// Proof of ownership: a secret.
    pub lease_id: String,
    /// The fencing token. Pass it to whatever the lock protects.
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

/// 409: the lock could not be acquired.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct NotAcquired {
    pub acquired: bool,
    pub lock_name: String,
    pub current_owner_id: Option<String>,
    /// The principal of that owner; omitted if the owner is not authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_principal: Option<String>,
    pub current_expiry_ms: Option<i64>,
    /// What the holder wants to be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_metadata: Option<Value>,
    pub recommended_retry_ms: u64,
    pub reason: Reason,
    /// What is wrong, in words.
    pub error: String,
}

/// Why a lock could not be acquired, or a lease not be renewed or released.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Reason {
    /// The lock is held by another owner.
    Held,
    /// Another process holds the database; nothing was done.
    BusyRetry,
    /// The lock is reserved for its last owner until its grace period ends.
    Grace,
    /// The lock's queue is full.
    QueueFull,
    /// The lock was not free within `wait_ms`.
    WaitTimeout,
    /// Lease not found, expired, or owned by another client.
    NotOwnerOrExpired,
    /// Lease not found, or owned by another client.
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

/// 200: the lease is renewed.
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

/// 409: the lease could not be renewed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct NotRenewed {
    pub renewed: bool,
    pub reason: Reason,
    /// What is wrong, in words.
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

/// 200: the lease is released.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct Released {
    pub released: bool,
}

/// 409: the lease could not be released.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct NotReleased {
    pub released: bool,
    pub reason: Reason,
    /// What is wrong, in words.
    pub error: String,
}

/// `GET {lock}`: the state of a lock.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct LockState {
    pub lock_name: String,
    pub held: bool,
    /// The fencing token of the latest grant.
    pub last_token: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<String>,
    /// The owner's principal; omitted if it is not authenticated. An owner is a principal and an `owner_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fencing_token: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_expiry_ms: Option<i64>,
    /// The version of the latest lease: it grows with every change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Holder>,
    /// The number of holders, if not all are listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_holders: usize,
    /// The waiters, in order. Present whenever the lock is held or waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Vec<Waiter>>,
    /// The number of waiters, including those not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_waiting: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// The last owner, for whom the lock is reserved, and for how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_owner_id: Option<String>,
    /// The principal of that owner; omitted if the owner is not authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_principal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_remaining_ms: Option<u64>,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// A holder of a lock.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct Holder {
    pub owner_id: String,
    /// The principal of that owner; omitted if the owner is not authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
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

/// A waiter for a lock.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct Waiter {
    pub owner_id: String,
    /// The principal of that owner; omitted if the owner is not authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Its position in the queue; 1 is next.
    pub position: usize,
    pub waiting_ms: u64,
    /// Its connection is gone: it is skipped until its client repeats the request.
    pub parked: bool,
}

/// `GET /v1/locks`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct LockList {
    pub locks: Vec<LockState>,
    /// The cursor of the next page; `null` at the end.
    pub next_cursor: Option<String>,
}

/// `POST {lock}/revoke`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RevokeRequest {
    /// Why the lock is revoked; kept with the leases and shown in their events.
    pub reason: String,
}

/// 200: the leases that were revoked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct Revoked {
    pub lock_name: String,
    pub revoked: Vec<RevokedLease>,
}

/// A lease that was revoked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct RevokedLease {
    pub owner_id: String,
    /// The principal of that owner; omitted if the owner is not authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    pub fencing_token: u64,
}
