//! What is asked of the server itself.

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
