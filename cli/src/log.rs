//! Logs: for people on a terminal, as JSON otherwise.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Sends what is logged to standard error.
pub(crate) fn init(filter: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| format!("--log: {error}"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let result = if std::io::stderr().is_terminal() {
        builder.with_target(false).try_init()
    } else {
        builder.json().flatten_event(true).try_init()
    };
    result.map_err(|error| error.to_string())
}
