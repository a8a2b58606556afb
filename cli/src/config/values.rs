//! Returns all settings by name, for JSON output.

use std::collections::BTreeMap;

use clap::{Args as _, Command};

use super::{Args, Given};

/// Returns every setting that has a value, from any source, as it was written.
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
