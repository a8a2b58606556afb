//! Logs: for people on a terminal, as JSON otherwise.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::reload::{Error, Handle};

/// What is logged, while the program runs.
pub(crate) struct Filter(Box<Set>);

type Set = dyn Fn(EnvFilter) -> Result<(), Error> + Send;

impl Filter {
    /// Logs what this filter says from now on. One that is wrong changes nothing.
    pub(crate) fn set(&self, filter: &str) -> Result<(), String> {
        (self.0)(parsed(filter)?).map_err(|error| error.to_string())
    }
}

/// Sends what is logged to standard error.
pub(crate) fn init(filter: &str) -> Result<Filter, String> {
    let builder = tracing_subscriber::fmt().with_env_filter(parsed(filter)?);
    // Whoever read them may be gone. Saying so where nobody reads would end the server.
    let builder = builder.with_writer(std::io::stderr).log_internal_errors(false);
    if std::io::stderr().is_terminal() {
        let builder = builder.with_target(false).with_filter_reloading();
        let filter = handle(builder.reload_handle());
        builder.try_init().map(|()| filter).map_err(|error| error.to_string())
    } else {
        let builder = builder.json().flatten_event(true).with_filter_reloading();
        let filter = handle(builder.reload_handle());
        builder.try_init().map(|()| filter).map_err(|error| error.to_string())
    }
}

fn handle<S: 'static>(handle: Handle<EnvFilter, S>) -> Filter {
    Filter(Box::new(move |filter| handle.reload(filter)))
}

fn parsed(filter: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(filter).map_err(|error| format!("--log: {error}"))
}
