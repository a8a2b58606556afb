//! Settings in environment variables: what is wrong with one is told by its name.

use std::ffi::{OsStr, OsString};

use super::{Given, file};

/// Says which variable has a value that its setting does not take.
pub(super) fn check(given: &Given) -> Result<(), String> {
    for arg in file::settings().get_arguments() {
        let (Some(name), Some(variable)) = (arg.get_long(), arg.get_env()) else { continue };
        // A flag wins over it, so that it does not count.
        let Some(value) = std::env::var_os(variable).filter(|_| !given.is_flag(name)) else {
            continue;
        };
        let flag = joined(&format!("--{name}="), &value);
        let why = |why: String| format!("{}: {}", variable.display(), without_flag(&why, name));
        file::check(&flag).map_err(why)?;
    }
    Ok(())
}

/// What is wrong, without ` for '--name <VALUE>'`: nobody gave the flag.
fn without_flag(why: &str, name: &str) -> String {
    let begin = format!(" for '--{name}");
    let cut = why.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once('\'')?;
        Some(format!("{before}{after}"))
    });
    cut.unwrap_or_else(|| why.to_owned())
}

/// What the variable of a setting is called.
pub(super) fn variable(name: &str) -> String {
    format!("LEASEHOLD_{}", name.replace('-', "_").to_uppercase())
}

/// A flag with its value, whatever bytes that has.
pub(super) fn joined(flag: &str, value: &OsStr) -> OsString {
    let mut joined = OsString::from(flag);
    joined.push(value);
    joined
}
