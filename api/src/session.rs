//! Sessions: one keep-alive for any number of leases.

use serde::{Deserialize, Serialize};

/// `POST /v1/sessions`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct OpenSessionRequest {
    pub owner_id: String,
    /// How long it lasts without a keep-alive.
    pub ttl_ms: u64,
}

/// 201.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct SessionOpened {
    /// The session's id: a secret of its owner.
    pub session_id: String,
    pub owner_id: String,
    /// Time left when this answer was made.
    pub expires_in_ms: u64,
    /// From the time the request was sent, the session lasts at least this long.
    pub expires_after_send_ms: u64,
}

/// `POST /v1/sessions/{id}/keepalive`: 200.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptAlive {
    /// Time left when this answer was made.
    pub expires_in_ms: u64,
    /// From the time the request was sent, the session lasts at least this long.
    pub expires_after_send_ms: u64,
}
