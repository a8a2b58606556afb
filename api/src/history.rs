//! Past events of locks.

use serde::{Deserialize, Serialize};

use crate::Event;

/// A page of history, newest first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct History {
    /// What happened.
    pub events: Vec<PastEvent>,
    /// Where older events begin; `null` if there are none.
    pub next_cursor: Option<String>,
}

/// One event, as `GET /v1/events` told it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PastEvent {
    /// The event's id.
    pub id: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}
