//! Checks whether a fencing token is stale.

use serde::{Deserialize, Serialize};

/// `POST /v1/fence/check`. Advisory: by the time the answer arrives it may be another.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct FenceCheck {
    pub lock_name: String,
    pub fencing_token: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// 200.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct FenceVerdict {
    /// The token's lease is active, and no later grant conflicts with it.
    pub accepted: bool,
    pub last_token: u64,
}
