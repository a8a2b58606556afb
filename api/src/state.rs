//! The Terraform states that a server stores, in addition to the requests of Terraform itself.

use serde::{Deserialize, Serialize};

/// A version of a state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StateVersion {
    /// Its number: one more with every write.
    pub version: u64,
    /// In bytes.
    pub size: u64,
    /// When it was written, in epoch milliseconds.
    pub modified_ms: i64,
}

/// The versions of a state that are kept, latest first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StateVersions {
    /// The name of the state.
    pub state: String,
    /// Its versions.
    pub versions: Vec<StateVersion>,
}

/// A state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TerraformState {
    /// Its name.
    pub state: String,
    /// What it is now.
    pub latest: StateVersion,
    /// The holder of the lock; `null` if it is free.
    pub locked_by: Option<String>,
}

/// All states their reader may see.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TerraformStates {
    /// In the order of their names as they are in a path.
    pub states: Vec<TerraformState>,
}

/// A state was written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StateWritten {
    /// The number of the new version.
    pub version: u64,
}
