//! Prints the effective settings in the format of the config file, each with its source.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};

use super::{Given, file};

/// Returns the settings as TOML, with one line for each.
pub(crate) fn explain(given: &Given) -> Result<String, String> {
    let words = given.words().skip(2).cloned();
    let words = [OsString::from("leasehold")].into_iter().chain(words);
    let command = file::settings();
    let matches = command.clone().try_get_matches_from(words).map_err(|error| error.to_string())?;
    let mut text = String::new();
    for arg in command.get_arguments().filter(|arg| arg.get_long() != Some("config")) {
        let Some(name) = arg.get_long() else { continue };
        // Writing to a string does not fail.
        let _ = match value(arg, &matches) {
            Some(value) => writeln!(text, "{name} = {value}  # {}", source(arg, &matches, given)),
            None => writeln!(text, "# {name} is not set"),
        };
    }
    Ok(text)
}

/// Appends the source of every setting that the message names, unless it is a flag on the command line.
pub(crate) fn located(why: String, given: &Given) -> String {
    let is_named = |name: &str| {
        let flag = format!("--{name}");
        why.match_indices(&flag).any(|(at, _)| {
            let next = why[at + flag.len()..].chars().next();
            !next.is_some_and(|c| c.is_alphanumeric() || c == '-')
        })
    };
    let settings = file::settings();
    let names = settings.get_arguments().filter_map(Arg::get_long);
    let places = names.filter(|name| is_named(name)).filter_map(|name| given.place(name));
    let places: std::collections::BTreeSet<_> = places.collect();
    if places.is_empty() {
        return why;
    }
    let places: Vec<_> = places.into_iter().collect();
    format!("{why} ({})", places.join(", "))
}

fn value(arg: &Arg, matches: &ArgMatches) -> Option<String> {
    let id = arg.get_id().as_str();
    let mut values = matches.get_raw(id)?;
    if matches!(arg.get_action(), ArgAction::Append) {
        let texts = values.flat_map(split).map(|text| quoted(&text));
        return Some(format!("[{}]", texts.collect::<Vec<_>>().join(", ")));
    }
    let text = values.next_back()?.to_string_lossy();
    // `0660` stays a string: as a TOML number it would have another value.
    let is_number = text.parse::<i64>().is_ok_and(|number| number.to_string() == text);
    let is_bare = is_number || text.parse::<bool>().is_ok();
    Some(if is_bare { text.into_owned() } else { quoted(&text) })
}

fn split(text: &OsStr) -> Vec<String> {
    let text = text.to_string_lossy();
    text.split(',').filter(|piece| !piece.is_empty()).map(str::to_owned).collect()
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn source(arg: &Arg, matches: &ArgMatches, given: &Given) -> String {
    let name = arg.get_long().unwrap_or_default();
    match matches.value_source(arg.get_id().as_str()) {
        Some(ValueSource::EnvVariable) => {
            arg.get_env().unwrap_or_default().to_string_lossy().into_owned()
        }
        Some(ValueSource::CommandLine) if given.is_flag(name) => format!("--{name}"),
        Some(ValueSource::CommandLine) => given.source(name).unwrap_or("--").to_owned(),
        _ => "default".into(),
    }
}

/// The source of each setting that was inserted as a flag: a line of the file or a variable.
pub(super) type Sources = BTreeMap<String, String>;
