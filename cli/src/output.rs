//! What commands print, and nothing of it unchecked: names come from other people.

use std::borrow::Cow;
use std::io::{ErrorKind, Write};
use std::time::Duration;

use clap::Args;
use leasehold::Client;
use serde::Serialize;

use crate::duration::DurationArg;
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

/// Says a line, or several, beside what is printed. If nobody listens any more, that is no reason to stop: `eprintln!`
/// would.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Warns if a leader change of the cluster might end a lease with this TTL, of which so much is kept in reserve.
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

/// The same JSON without what a terminal would obey. JSON itself only wants the first 32 characters escaped.
pub(crate) fn plain_json(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return text.into();
    }
    // Outside of texts there are none of them, and none of them needs more than four digits.
    let shown = |c: char| if is_obeyed(c) { format!("\\u{:04x}", c as u32) } else { c.into() };
    text.chars().map(shown).collect::<String>().into()
}

/// The text without what a terminal would obey: an owner can call itself anything.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return text.into();
    }
    let shown = |c: char| if is_obeyed(c) { c.escape_default().to_string() } else { c.into() };
    text.chars().map(shown).collect::<String>().into()
}

/// Control characters, old and new (C1), line separators, and what turns the direction of writing.
fn is_obeyed(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
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
