//! Converts the settings of a TOML file to flags, and records the line of each.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;

use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::{Args as _, Command};
use toml::de::DeTable;

use super::{Args, discreet};

/// A setting in the file.
pub(super) struct Setting {
    pub(super) name: String,
    /// `--name=value`
    pub(super) flag: OsString,
    /// `leasehold.toml:3`
    pub(super) place: String,
}

/// Reads the settings of a file. The error names the line.
pub(super) fn read(file: &Path) -> Result<Vec<Setting>, String> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| format!("{shown}: {error}"))?;
    let place = |at: usize| format!("{shown}:{}", line(&text, at));
    let wrong = |error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start);
        format!("{}: {}", place(at), error.message())
    };
    let table: toml::Table = text.parse().map_err(wrong)?;
    let keys = DeTable::parse(&text).map_err(wrong)?;
    let places: BTreeMap<_, _> =
        keys.get_ref().keys().map(|key| (key.get_ref().to_string(), key.span().start)).collect();
    let known = names();
    let mut settings = Vec::new();
    for (key, value) in &table {
        let place = place(places.get(key).copied().unwrap_or(0));
        let name = key.replace('_', "-");
        if !known.contains(&name) || name == "config" {
            return Err(format!("{place}: there is no setting {key:?}"));
        }
        let value = plain(key, value).map_err(|why| format!("{place}: {why}"))?;
        let flag = OsString::from(format!("--{name}={value}"));
        check(&flag).map_err(|why| format!("{place}: {why}"))?;
        settings.push(Setting { name, flag, place });
    }
    Ok(settings)
}

fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

fn plain(key: &str, value: &toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Boolean(flag) => Ok(flag.to_string()),
        toml::Value::Array(values) => {
            let texts: Result<Vec<_>, _> = values.iter().map(|value| plain(key, value)).collect();
            texts.map(|texts| texts.join(","))
        }
        _ => Err(format!("{key}: must be a string, a number, true, false or a list of strings")),
    }
}

/// Returns the value of one setting from a file, even if other settings in it are invalid.
pub(super) fn said(file: &Path, name: &str) -> Option<String> {
    let table: toml::Table = std::fs::read_to_string(file).ok()?.parse().ok()?;
    let value = table.iter().find(|(key, _)| key.replace('_', "-") == name)?.1;
    plain(name, value).ok()
}

/// Checks whether the parser accepts this flag. Other settings that it requires are checked later, when all are known.
pub(super) fn check(flag: &OsString) -> Result<(), String> {
    let command = settings().mut_args(|arg| arg.env(Resettable::Reset));
    let parsed = command.try_get_matches_from([OsString::from("leasehold"), flag.clone()]);
    match parsed {
        Err(error) if error.kind() != ErrorKind::MissingRequiredArgument => {
            let said = discreet(error).to_string();
            let first = said.lines().next().unwrap_or_default();
            Err(first.strip_prefix("error: ").unwrap_or(first).to_owned())
        }
        _ => Ok(()),
    }
}

/// Returns a command with all server settings as its only arguments.
pub(super) fn settings() -> Command {
    Args::augment_args(Command::new("leasehold").no_binary_name(false))
}

/// Returns the names of all settings.
fn names() -> BTreeSet<String> {
    let command = settings();
    command.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect()
}
