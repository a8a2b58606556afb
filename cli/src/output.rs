//! The output of commands. Control characters are escaped, because other people choose names of locks and owners.

use std::borrow::Cow;
use std::io::{ErrorKind, Write};
use std::time::Duration;

use clap::Args;
use leasehold::Client;
use serde::Serialize;

use crate::duration::DurationArg;
use crate::exit::{Failure, SIGNAL, SYSTEM};

/// The output format.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct OutputArgs {
    /// Print JSON, including failures.
    #[arg(long)]
    pub(crate) json: bool,
}

/// SIGPIPE, the signal that ends a process that writes to a closed pipe.
const PIPE: u8 = 13;

/// Prints one or more lines to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        // The reader has closed the pipe, as `head` does.
        ErrorKind::BrokenPipe => Failure::silent(SIGNAL + PIPE),
        _ => Failure::new(SYSTEM, error),
    })
}

/// Prints one or more lines to standard error. Ignores write errors; `eprintln!` would panic.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Warns if a leader change of the cluster might end a lease with this TTL. `reserve` is the part of the TTL that the
/// command needs at the end.
pub(crate) fn warn_short(client: &Client, ttl: Duration, reserve: Duration) {
    let least = client.failover_time().map(|failover| failover + reserve);
    if let Some(least) = least.filter(|least| ttl < *least) {
        let [ttl, least] = [ttl, least].map(DurationArg);
        say(&format!(
            "leasehold: warning: --ttl {ttl} is too short for a fail-over of this cluster: \
             a leader change might end the lease; use at least {least}"
        ));
    }
}

/// Prints one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::new(SYSTEM, error))?;
    print(&plain_json(&text))
}

/// Escapes characters in JSON that control a terminal. JSON itself requires that only for the first 32.
pub(crate) fn plain_json(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return text.into();
    }
    // Such characters occur only within strings, and four hexadecimal digits are enough for each of them.
    let shown = |c: char| if is_obeyed(c) { format!("\\u{:04x}", c as u32) } else { c.into() };
    text.chars().map(shown).collect::<String>().into()
}

/// Replaces characters that control a terminal: an owner can choose any name.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return text.into();
    }
    let shown = |c: char| if is_obeyed(c) { c.escape_default().to_string() } else { c.into() };
    text.chars().map(shown).collect::<String>().into()
}

/// Returns whether a terminal acts on the character: C0 and C1 control characters, line separators, and characters that
/// change the writing direction.
fn is_obeyed(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control()
}

/// Quotes the text for a shell.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns lines for a shell to `eval` that export the variables.
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
    fn json_says_the_same_and_cannot_move_the_cursor_either() {
        for text in
            ["a\x1b[2J\x7f", "\u{9b}2J", "gpj\u{202e}.exe", "\u{2028}\u{2069}\u{61c}", "漢 ü"]
        {
            let json = serde_json::to_string(&[text]).expect("JSON");
            let shown = plain_json(&json);
            assert!(!shown.contains(is_obeyed), "{shown:?}");
            assert_eq!(serde_json::from_str::<[String; 1]>(&shown).expect("JSON"), [text]);
        }
        assert_eq!(plain_json(r#"["\u001b","ü"]"#), r#"["\u001b","ü"]"#);
    }

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        assert_eq!(quoted("it's; rm"), r"'it'\''s; rm'");
        assert_eq!(exports(&[("A", "1"), ("B", "x y")]), "export A='1'\nexport B='x y'");
    }
}
