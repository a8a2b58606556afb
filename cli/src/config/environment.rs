//! Settings in environment variables: error messages name the variable.

use std::ffi::{OsStr, OsString};

use super::{Given, file};

/// Checks the values of all variables. The error names the variable whose value its setting does not accept.
pub(super) fn check(given: &Given) -> Result<(), String> {
    for arg in file::settings().get_arguments() {
        let (Some(name), Some(variable)) = (arg.get_long(), arg.get_env()) else { continue };
        // A flag overrides the variable, so its value does not matter.
        let Some(value) = std::env::var_os(variable).filter(|_| !given.is_flag(name)) else {
            continue;
        };
        let flag = joined(&format!("--{name}="), &value);
        let why = |why: String| format!("{}: {}", variable.display(), without_flag(&why, name));
        file::check(&flag).map_err(why)?;
    }
    Ok(())
}

/// Removes ` for '--name <VALUE>'` from an error message: the flag was not used.
fn without_flag(why: &str, name: &str) -> String {
    let begin = format!(" for '--{name}");
    let cut = why.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once('\'')?;
        Some(format!("{before}{after}"))
    });
    cut.unwrap_or_else(|| why.to_owned())
}

/// Returns the name of the environment variable for a setting.
pub(super) fn variable(name: &str) -> String {
    format!("LEASEHOLD_{}", name.replace('-', "_").to_uppercase())
}

/// Joins a flag and its value, which can contain any bytes.
pub(super) fn joined(flag: &str, value: &OsStr) -> OsString {
    let mut joined = OsString::from(flag);
    joined.push(value);
    joined
}
