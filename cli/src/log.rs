//! Logs: for people on a terminal, as JSON otherwise.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
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

/// Says what is wrong with a filter.
pub(crate) fn check(filter: &str) -> Result<(), String> {
    parsed(filter).map(|_| ())
}

fn parsed(filter: &str) -> Result<EnvFilter, String> {
    check_levels(filter)?;
    EnvFilter::try_new(filter).map_err(|error| format!("--log: {error}"))
}

/// A word that is no level would be taken for the name of a module, of which everything is logged, and nothing else.
fn check_levels(filter: &str) -> Result<(), String> {
    // Spans and their fields are the filter's own language.
    if filter.contains(['[', '{']) {
        return Ok(());
    }
    let levels = filter.split(',').map(|word| word.rsplit('=').next().unwrap_or(word).trim());
    let is_level = |level: &&str| level.is_empty() || level.parse::<LevelFilter>().is_ok();
    match levels.into_iter().find(|level| !is_level(level)) {
        Some(level) => Err(format!(
            "--log: unknown level {level:?}; allowed: error, warn, info, debug, trace, off, or MODULE=LEVEL"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_none_is_named() {
        let fine = ["info", "WARN", "off", "info,leasehold_server=debug", "[span]=debug", "info,"];
        for filter in fine {
            assert_eq!(check(filter), Ok(()), "{filter}");
        }
        for (filter, level) in [("infoo", "infoo"), ("info,a=debgu", "debgu"), ("info, all", "all")]
        {
            let why = check(filter).expect_err("no level");
            assert!(
                why.starts_with(&format!("--log: unknown level {level:?}; allowed: ")),
                "{why}"
            );
        }
        assert!(check("info,=x=").expect_err("no filter").starts_with("--log: invalid filter"));
    }
}
