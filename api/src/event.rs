//! Events of locks, as they happen.

use serde::{Deserialize, Serialize};

/// One event of `GET /v1/events`. Its id is the SSE id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct Event {
    pub kind: EventKind,
    pub namespace: String,
    pub lock_name: String,
    pub owner_id: String,
    /// The principal of that owner; omitted if the owner is not authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    pub fencing_token: u64,
    /// Epoch milliseconds.
    pub at_ms: i64,
    /// How long the lease waited in the queue, in milliseconds.
    #[serde(default)]
    pub waited_ms: u64,
    /// How long it held the lock, in milliseconds.
    #[serde(default)]
    pub held_ms: u64,
    /// Why it was revoked, and on whose word; or the circle of waits a suspected deadlock consists of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What happened. It is also the SSE event name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A lease joined the queue of its lock.
    Queued,
    /// A lease became active.
    Granted,
    /// A lease was released.
    Released,
    /// A lease ran out.
    Expired,
    /// A lease was taken away.
    Revoked,
    /// A waiting lease left the queue without having had the lock.
    WaitEnded,
    /// A lease has been held for longer than the server's `held-warn`. It is still held.
    HeldLong,
    /// A lease has waited for longer than the server's `wait-warn`. It still waits.
    WaitedLong,
    /// A lease seems to be in a deadlock: its owner waits for a client that waits for it. It still waits.
    DeadlockSuspected,
}

/// The SSE event `gap`: something happened that this reader will not be told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct Gap {
    pub reason: String,
}
