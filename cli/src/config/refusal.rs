//! Settings that cannot be read: told as they themselves say, as far as they can be read.

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

/// A command whose settings cannot be read has failed: a server says so in the format of its log, another command
/// also in JSON if that was asked for.
pub(crate) fn refusal(typed: &[OsString], why: String) -> Failure {
    if is_server(typed) {
        return serve::fatal(why, chosen(typed).unwrap_or(Format::Auto));
    }
    let output = OutputArgs { json: typed.iter().any(|word| word == "--json") };
    told::<()>(output, Err(why.clone().into())).err().unwrap_or_else(|| why.into())
}

/// The same, without a value in which there may be a password: `etcd://USER:PASSWORD@HOST:PORT`.
pub(crate) fn discreet(mut error: clap::Error) -> clap::Error {
    let is_telling = |value: &ContextValue| value.to_string().contains(['@', '?']);
    if error.get(ContextKind::InvalidValue).is_some_and(is_telling) {
        error.insert(ContextKind::InvalidValue, ContextValue::String("***".into()));
    }
    error
}

/// Is it a server whose log is JSON because somebody said so?
pub(crate) fn is_json_chosen(typed: &[OsString]) -> bool {
    is_server(typed) && chosen(typed) == Some(Format::Json)
}

fn is_server(typed: &[OsString]) -> bool {
    typed.get(1).is_some_and(|word| word == "serve")
}

/// What lines of the log are to look like: by a flag, a variable, or a file, in which something else may be wrong.
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
