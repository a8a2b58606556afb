//! Logs to standard error: as text on a terminal, as JSON otherwise, unless a setting chooses the format.

use std::io::IsTerminal;

use clap::ValueEnum;
use serde_json::{Map, Value};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::reload::{Error, Handle};

use crate::output::{plain_json, say};

/// The default log filter. It omits changes of leases except warnings, because writing a log line takes longer than the
/// change.
pub(crate) const FILTER: &str = "info,change=warn";

/// The format of a log line.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Text,
    /// One JSON object per line, including the startup banner and the reason why the server ended.
    Json,
}

impl Format {
    pub(crate) fn is_json(self) -> bool {
        match self {
            Format::Auto => !std::io::stderr().is_terminal(),
            Format::Text => false,
            Format::Json => true,
        }
    }
}

/// Prints a JSON line that looks like a log line but that no filter drops: the startup banner and fatal errors.
pub(crate) fn tell(level: &str, message: &str, fields: Map<String, Value>) {
    let mut now = String::new();
    // Writing to a string cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut now));
    let quoted = |text: &str| Value::from(text).to_string();
    let mut line = format!("{{\"timestamp\":{},\"level\":{}", quoted(&now), quoted(level));
    line += &format!(",\"message\":{}", quoted(message));
    for (name, value) in &fields {
        line += &format!(",{}:{value}", quoted(name));
    }
    say(&plain_json(&(line + ",\"target\":\"leasehold\"}")));
}

/// Changes the log filter while the program runs.
pub(crate) struct Filter(Box<Set>);

type Set = dyn Fn(EnvFilter) -> Result<(), Error> + Send;

impl Filter {
    /// Replaces the log filter. An invalid filter changes nothing.
    pub(crate) fn set(&self, filter: &str) -> Result<(), String> {
        (self.0)(parsed(filter)?).map_err(|error| error.to_string())
    }
}

/// Starts logging to standard error.
pub(crate) fn init(filter: &str, format: Format) -> Result<Filter, String> {
    let builder = tracing_subscriber::fmt().with_env_filter(parsed(filter)?);
    // If the reader of the log is gone, reporting write errors to standard error would end the server.
    let builder = builder.with_writer(std::io::stderr).log_internal_errors(false);
    if !format.is_json() {
        // A file must not contain colors.
        let is_seen = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let builder = builder.with_ansi(is_seen && std::env::var_os("NO_COLOR").is_none());
        let builder = builder.with_target(false).with_filter_reloading();
        let filter = handle(builder.reload_handle());
        builder.try_init().map(|()| filter).map_err(|error| error.to_string())
    } else {
        let builder = builder.json().flatten_event(true).with_span_list(false);
        let builder = builder.with_filter_reloading();
        let filter = handle(builder.reload_handle());
        builder.try_init().map(|()| filter).map_err(|error| error.to_string())
    }
}

fn handle<S: 'static>(handle: Handle<EnvFilter, S>) -> Filter {
    Filter(Box::new(move |filter| handle.reload(filter)))
}

/// Checks a log filter.
pub(crate) fn check(filter: &str) -> Result<(), String> {
    parsed(filter).map(|_| ())
}

fn parsed(filter: &str) -> Result<EnvFilter, String> {
    check_levels(filter)?;
    let parsed =
        |filter: &str| EnvFilter::try_new(filter).map_err(|error| format!("--log: {error}"));
    // `h2` logs warnings that unauthenticated clients can cause at any rate.
    let is_quiet = !filter.contains("h2") && !filter.contains("off");
    parsed(filter)?;
    if is_quiet { parsed(&format!("h2=error,{filter}")) } else { parsed(filter) }
}

/// Rejects unknown levels. The filter would treat such a word as the name of a module, and log only that module.
fn check_levels(filter: &str) -> Result<(), String> {
    // Filters with spans and fields have their own syntax.
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
    fn an_invalid_level_is_named() {
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
