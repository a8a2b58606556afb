//! JSON values on the command line.

use serde_json::Value;

/// Parses the value of a flag such as `--metadata`.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))
}
