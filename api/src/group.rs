//! Groups of locks that are acquired together or not at all: acquire, renew, release. Also cancels a wait and watches a
//! lease.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lock::{Mode, Reason};
use crate::object::objects;

/// `POST /v1/acquire`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AcquireAllRequest {
    /// The owner the leases will belong to.
    pub owner_id: String,
    /// The locks, each at most once. The first in the way is named in a refusal.
    #[serde(deserialize_with = "objects")]
    pub locks: Vec<WantedLock>,
    /// How long the leases last; may be left out with a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Repeating it repeats the answer, not the effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Wait in the queues this long instead of being refused at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// How long after expiry only this owner may take the locks again; only if all are exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// Any JSON; shown to clients that read one of the locks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// The session the leases belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// One of the locks wanted together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WantedLock {
    /// The lock's name.
    pub lock_name: String,
    /// With whom it is shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Up to this many holders at once; without `mode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// One of the leases granted together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GrantedLease {
    /// The lock's name.
    pub lock_name: String,
    /// Proof of ownership: a secret.
    pub lease_id: String,
    /// The fencing token. Pass it to whatever the lock protects.
    pub fencing_token: u64,
}

impl From<GrantedLease> for HeldLease {
    fn from(granted: GrantedLease) -> Self {
        let GrantedLease { lock_name, lease_id, fencing_token } = granted;
        Self { lock_name, lease_id, fencing_token }
    }
}

/// A lease to be renewed or released, as it was granted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HeldLease {
    /// The lock's name.
    pub lock_name: String,
    /// Proof of ownership: a secret.
    pub lease_id: String,
    /// The fencing token.
    pub fencing_token: u64,
}

/// 200: all the locks are held.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct AcquiredAll {
    pub acquired: bool,
    pub owner_id: String,
    /// One for each lock, in the order of the request.
    pub leases: Vec<GrantedLease>,
    /// Epoch milliseconds, for display only; `null` if they never expire.
    pub lease_expiry_ms: Option<i64>,
    /// Time left when this answer was made; `null` if they never expire.
    pub expires_in_ms: Option<u64>,
    /// From the time the request was sent, the leases last at least this long; `null` if they never expire.
    #[serde(deserialize_with = "Option::deserialize")]
    pub expires_after_send_ms: Option<u64>,
}

/// `POST /v1/renew`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RenewAllRequest {
    /// The leases' owner.
    pub owner_id: String,
    /// The leases then last at least this long from now.
    pub extend_by_ms: u64,
    /// The leases. All of them are renewed or none is.
    #[serde(deserialize_with = "objects")]
    pub leases: Vec<HeldLease>,
}

/// 409: a lease was lost, so none was renewed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct NotRenewedAll {
    pub renewed: bool,
    /// The lock of the first lease that is lost, in the order of the request.
    pub lock_name: String,
    /// That lease, as the request named it: an owner may have several of one lock.
    pub lease_id: String,
    pub reason: Reason,
    /// The reason in words.
    pub error: String,
}

/// Omits the lease id: errors end up in logs, and the lease might still be active.
impl fmt::Debug for NotRenewedAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("NotRenewedAll");
        shown.field("lock_name", &self.lock_name).field("reason", &self.reason);
        shown.field("error", &self.error).finish_non_exhaustive()
    }
}

/// `POST /v1/release`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReleaseAllRequest {
    /// The leases' owner.
    pub owner_id: String,
    /// The leases. Those that are still active are released.
    #[serde(deserialize_with = "objects")]
    pub leases: Vec<HeldLease>,
}

/// 200: at least one lease was released; 409: none was active.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct ReleasedAll {
    pub released: bool,
    /// One for each lease, in the order of the request.
    pub leases: Vec<ReleasedLease>,
    /// What is wrong, in words, if none was active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What became of one of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct ReleasedLease {
    pub lock_name: String,
    pub released: bool,
    /// Why it was not released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// `POST {lock}/cancel` and `POST /v1/cancel`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// The owner who waits.
    pub owner_id: String,
    /// The `request_id` of the acquire that waits.
    pub request_id: String,
}

/// 200: whether a wait was ended. If not, it was over before, or its lease was granted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct Cancelled {
    pub cancelled: bool,
}

/// `POST {lock}/watch`: a stream that tells of this lease's end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as the acquire was answered")]
pub struct WatchLeaseRequest {
    pub owner_id: String,
    pub lease_id: String,
    pub fencing_token: u64,
}

/// The first event of such a stream, `watching`: the lease is active.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct WatchedLease {
    pub lock_name: String,
    pub fencing_token: u64,
    pub lease_expiry_ms: Option<i64>,
    /// Time left when this event was made; `null` if it never expires.
    pub expires_in_ms: Option<u64>,
}

/// The last event of such a stream, `ended`: the lease is over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaseEnd {
    /// The lock's name.
    pub lock_name: String,
    /// The lease's token.
    pub fencing_token: u64,
    /// `released`, `expired` or `revoked`.
    pub how: String,
    /// Why it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When, in epoch milliseconds.
    pub at_ms: i64,
}
