//! What the settings are, for whoever asks in JSON.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::{Args as _, Command};

use super::{Args, arguments};

/// Every setting that has a value, wherever that came from, as it is written.
pub(crate) fn values(
    given: impl Iterator<Item = OsString>,
) -> Result<BTreeMap<String, String>, String> {
    let command = Args::augment_args(Command::new("settings")).ignore_errors(true);
    let names: Vec<_> = command.get_arguments().map(|arg| arg.get_id().to_string()).collect();
    let matches = command.get_matches_from(arguments(given)?.into_iter().skip(1));
    let value = |name: String| {
        let raw = matches.get_raw(&name)?;
        let values: Vec<_> = raw.map(|value| value.to_string_lossy().into_owned()).collect();
        Some((name.replace('_', "-"), values.join(",")))
    };
    Ok(names.into_iter().filter_map(value).collect())
}
