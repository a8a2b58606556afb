//! Reports invalid settings in the output format that the settings choose, as far as they can be read.

use std::ffi::OsString;

use clap::ValueEnum;
use clap::error::{ContextKind, ContextValue};

use super::environment::variable;
use super::{config_file, file};
use crate::ask::told;
use crate::exit::Failure;
use crate::log::Format;
use crate::output::OutputArgs;
use crate::serve;

const LOG_FORMAT: &str = "log-format";

/// Returns the failure for settings that cannot be read. A server reports it in the format of its log; another command
/// also reports it as JSON if `--json` was given.
pub(crate) fn refusal(typed: &[OsString], why: String) -> Failure {
    if is_server(typed) {
        return serve::fatal(why, chosen(typed).unwrap_or(Format::Auto));
    }
    let output = OutputArgs { json: typed.iter().any(|word| word == "--json") };
    told::<()>(output, Err(why.clone().into())).err().unwrap_or_else(|| why.into())
}

/// Removes a value that might contain a password from the error, such as `etcd://USER:PASSWORD@HOST:PORT`.
pub(crate) fn discreet(mut error: clap::Error) -> clap::Error {
    let is_telling = |value: &ContextValue| value.to_string().contains(['@', '?']);
    if error.get(ContextKind::InvalidValue).is_some_and(is_telling) {
        error.insert(ContextKind::InvalidValue, ContextValue::String("***".into()));
    }
    error
}

/// Returns whether the command is a server with explicitly configured JSON logs.
pub(crate) fn is_json_chosen(typed: &[OsString]) -> bool {
    is_server(typed) && chosen(typed) == Some(Format::Json)
}

fn is_server(typed: &[OsString]) -> bool {
    typed.get(1).is_some_and(|word| word == "serve")
}

/// Returns the log format from a flag, a variable or the config file. Other settings in the file can be invalid.
fn chosen(typed: &[OsString]) -> Option<Format> {
    let words: Vec<_> = typed.iter().skip(2).map(|word| word.to_string_lossy()).collect();
    let flag = format!("--{LOG_FORMAT}");
    let typed_after = words.windows(2).filter(|pair| pair[0] == flag).map(|pair| pair[1].as_ref());
    let joined = format!("{flag}=");
    let typed_with = words.iter().filter_map(|word| word.strip_prefix(joined.as_str()));
    let in_variable = || std::env::var(variable(LOG_FORMAT)).ok();
    let in_file = || file::said(&config_file(&typed[2..])?, LOG_FORMAT);
    let said = typed_with.chain(typed_after).next_back().map(str::to_owned);
    Format::from_str(&said.or_else(in_variable).or_else(in_file)?, false).ok()
}
