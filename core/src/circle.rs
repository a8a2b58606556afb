//! The description of a circle of waits, and how to remove the parts that a reader must not see.
//!
//! The format is `y waits for a because of x; x waits for b because of y`. An ambiguous name is quoted.

use std::fmt::{self, Write};

/// Replaces a wait in another namespace than the first, because the reader might lack permission for it.
pub(crate) const ELSEWHERE: &str = "somebody waits in another namespace";
const HIDDEN: &str = "another client waits for a lock that may not be read";
const FOR: &str = " waits for ";
const BECAUSE: &str = " because of ";
const NEXT: &str = "; ";

/// A name in a description, quoted if it is ambiguous.
pub(crate) struct Word<'a>(pub(crate) &'a str);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        let is_plain = !text.is_empty() && text.chars().all(is_plain);
        if is_plain { f.write_str(text) } else { write!(f, "{text:?}") }
    }
}

fn is_plain(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, '"' | ';' | '\\') && c.escape_debug().len() == 1
}

/// Returns the description without the waits for locks that `shows` rejects. Returns `None` if `circle` is malformed,
/// so nothing of it can be shown.
pub fn trimmed(circle: &str, shows: impl Fn(&str) -> bool) -> Option<String> {
    let (mut rest, mut told) = (circle, String::new());
    while !rest.is_empty() {
        let before = rest;
        let is_shown = match rest.strip_prefix(ELSEWHERE) {
            Some(after) => {
                rest = after;
                true
            }
            None => {
                take_word(&mut rest)?;
                take(&mut rest, FOR)?;
                let name = take_word(&mut rest)?;
                take(&mut rest, BECAUSE)?;
                take_word(&mut rest)?;
                shows(&name)
            }
        };
        let wait = &before[..before.len() - rest.len()];
        // Writing to a string cannot fail.
        let _ = told.write_str(if is_shown { wait } else { HIDDEN });
        if !rest.is_empty() {
            take(&mut rest, NEXT)?;
            told.push_str(NEXT);
        }
    }
    Some(told)
}

fn take(rest: &mut &str, text: &str) -> Option<()> {
    *rest = rest.strip_prefix(text)?;
    Some(())
}

/// Parses the next name and removes its quotes.
fn take_word(rest: &mut &str) -> Option<String> {
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find(|c| !is_plain(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        *rest = after;
        return (!word.is_empty()).then(|| word.into());
    };
    let (mut word, mut chars) = (String::new(), quoted.chars());
    loop {
        match chars.next()? {
            '"' => break,
            '\\' => word.push(escaped(&mut chars)?),
            c => word.push(c),
        }
    }
    *rest = chars.as_str();
    Some(word)
}

/// Parses an escape sequence of `escape_debug`, after its backslash.
fn escaped(chars: &mut std::str::Chars<'_>) -> Option<char> {
    Some(match chars.next()? {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        '0' => '\0',
        'u' => {
            let (code, after) = chars.as_str().strip_prefix('{')?.split_once('}')?;
            *chars = after.chars();
            char::from_u32(u32::from_str_radix(code, 16).ok()?)?
        }
        c => c,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(who: &str, name: &str, whom: &str) -> String {
        format!("{}{FOR}{}{BECAUSE}{}", Word(who), Word(name), Word(whom))
    }

    #[test]
    fn plain_names_stand_as_they_are() {
        assert_eq!(wait("y", "jobs/a-1", "x"), "y waits for jobs/a-1 because of x");
        assert_eq!(wait("y z", "a", ""), "\"y z\" waits for a because of \"\"");
    }

    #[test]
    fn only_what_may_be_read_is_told() {
        for nasty in [
            "a",
            "a b",
            "a\"b",
            "x; y waits for secret because of z",
            "a because of b",
            "\\\n\r\t\0\u{1b}\u{202e}\u{9b}ü'",
            ELSEWHERE,
            "a client waits",
        ] {
            let circle = [wait("w", nasty, "v"), ELSEWHERE.into(), wait(nasty, "secret", "s")];
            let circle = circle.join(NEXT);
            let told = trimmed(&circle, |name| name == nasty);
            let own = wait("w", nasty, "v");
            assert_eq!(told, Some(format!("{own}; {ELSEWHERE}; {HIDDEN}")), "{nasty:?}");
            assert_eq!(trimmed(&circle, |_| true).as_ref(), Some(&circle), "{nasty:?}");
        }
        for no_circle in ["because", "a waits for b", "x waits for \"b because of y", "a b c; "] {
            assert_eq!(trimmed(no_circle, |_| true), None, "{no_circle}");
        }
    }
}
