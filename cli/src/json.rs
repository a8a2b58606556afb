//! JSON given on the command line.

use serde_json::Value;

/// The value of a flag such as `--metadata`.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))
}
