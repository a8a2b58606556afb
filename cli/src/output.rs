//! What commands print, and nothing of it unchecked: names come from other people.

use std::borrow::Cow;
use std::io::{ErrorKind, Write};

use clap::Args;
use serde::Serialize;

use crate::exit::{Failure, SIGNAL, SYSTEM};

/// How to answer.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct OutputArgs {
    /// Answer in JSON, also if it fails.
    #[arg(long)]
    pub(crate) json: bool,
}

/// SIGPIPE, as whoever does not catch it ends by it.
const PIPE: u8 = 13;

/// Prints a line, or several.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        // Whoever read it, `head` perhaps, has enough.
        ErrorKind::BrokenPipe => Failure::silent(SIGNAL + PIPE),
        _ => Failure::new(SYSTEM, error),
    })
}

/// Prints one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::new(SYSTEM, error))?;
    print(&text)
}

/// The text without what a terminal would obey: an owner can call itself anything.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return text.into();
    }
    let shown = |c: char| if is_obeyed(c) { c.escape_default().to_string() } else { c.into() };
    text.chars().map(shown).collect::<String>().into()
}

/// Control characters, and those that turn the direction of writing.
fn is_obeyed(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control()
}

/// The text as a word that a shell takes literally.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Lines for a shell to `eval`: the variables, exported.
pub(crate) fn exports(variables: &[(&str, &str)]) -> String {
    let lines = variables.iter().map(|(name, value)| format!("export {name}={}", quoted(value)));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_move_the_cursor() {
        assert_eq!(plain("worker-1 ü 漢"), "worker-1 ü 漢");
        assert_eq!(plain("a\x1b[2Jb\nc\u{9b}"), r"a\u{1b}[2Jb\nc\u{9b}");
        assert_eq!(plain("gpj\u{202e}.exe"), r"gpj\u{202e}.exe");
    }

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        assert_eq!(quoted("it's; rm"), r"'it'\''s; rm'");
        assert_eq!(exports(&[("A", "1"), ("B", "x y")]), "export A='1'\nexport B='x y'");
    }
}
