//! What the settings are, for whoever asks in JSON.

use std::collections::BTreeMap;

use clap::{Args as _, Command};

use super::{Args, Given};

/// Every setting that has a value, wherever that came from, as it is written.
pub(crate) fn values(given: &Given) -> BTreeMap<String, String> {
    let command = Args::augment_args(Command::new("settings")).ignore_errors(true);
    let names: Vec<_> = command.get_arguments().map(|arg| arg.get_id().to_string()).collect();
    let matches = command.get_matches_from(given.words().skip(1));
    let value = |name: String| {
        let raw = matches.get_raw(&name)?;
        let values: Vec<_> = raw.map(|value| value.to_string_lossy().into_owned()).collect();
        Some((name.replace('_', "-"), values.join(",")))
    };
    names.into_iter().filter_map(value).collect()
}
