//! Decides which words of the command line belong to `leasehold run` and which to its command.
//!
//! As with `flock`, no `--` is needed: `run LOCK CMD ARGS`, or with `-l`, `run -l LOCK -l LOCK CMD ARGS`. From the
//! first word of the command on, no word is a flag of `run`, even if it looks like one. So this module inserts a `--`
//! before that word, before the arguments are parsed.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Args, Command};

use super::args::{ALL_WORDS, RunArgs};
use crate::completions::takes_next;

/// Returns the command line with `--` inserted before the command of `run`.
pub(crate) fn separated(mut given: Vec<OsString>) -> Vec<OsString> {
    if given.get(1).is_none_or(|word| word != "run") {
        return given;
    }
    let flags = RunArgs::augment_args(Command::new("run"));
    let mut n_words = 0;
    let mut has_locks = false;
    let mut at = 2;
    while let Some(word) = given.get(at) {
        if word == "--" {
            break;
        }
        match flag(&flags, word) {
            Some(flag) => {
                has_locks |= flag.is_lock;
                at += if flag.takes_next { 2 } else { 1 };
            }
            None if has_locks && n_words == 0 || n_words == 1 => {
                given.insert(at, "--".into());
                break;
            }
            None => {
                n_words += 1;
                at += 1;
            }
        }
    }
    if has_locks && n_words == 0 {
        given.insert(2, format!("--{ALL_WORDS}").into());
    }
    given
}

struct Flag {
    is_lock: bool,
    takes_next: bool,
}

/// Returns what flag the word is, if it starts with a dash. The argument parser reports unknown flags.
fn flag(flags: &Command, word: &OsStr) -> Option<Flag> {
    let text = word.to_string_lossy();
    let is_lock = |arg: &Arg| arg.get_id() == "locks";
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) =
            long.split_once('=').map_or((long, None), |(name, it)| (name, Some(it)));
        let named = |arg: &&Arg| {
            let aliases = arg.get_visible_aliases().unwrap_or_default();
            arg.get_long() == Some(name) || aliases.contains(&name)
        };
        let arg = flags.get_arguments().find(named);
        let takes_next = value.is_none() && arg.is_some_and(takes_next);
        return Some(Flag { is_lock: arg.is_some_and(is_lock), takes_next });
    }
    let letters = text.strip_prefix('-').filter(|letters| !letters.is_empty())?;
    for (n, letter) in letters.char_indices() {
        let lettered = |arg: &&Arg| {
            let aliases = arg.get_visible_short_aliases().unwrap_or_default();
            arg.get_short() == Some(letter) || aliases.contains(&letter)
        };
        if let Some(arg) = flags.get_arguments().find(lettered).filter(|arg| takes_next(arg)) {
            // The rest of the word is the flag's value, if there is any.
            let takes_next = n + letter.len_utf8() == letters.len();
            return Some(Flag { is_lock: is_lock(arg), takes_next });
        }
    }
    Some(Flag { is_lock: false, takes_next: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        let given = ["leasehold"].into_iter().chain(line.split(' ')).map(OsString::from).collect();
        let words: Vec<_> =
            separated(given).iter().map(|w| w.to_string_lossy().into_owned()).collect();
        assert_eq!(words[1..].join(" "), expected);
    }

    #[test]
    fn the_second_word_is_the_command() {
        check("run a ls -l", "run a -- ls -l");
        check("run -n a -w 5 ls", "run -n a -w 5 -- ls");
        check("run -nw5 a ls -n", "run -nw5 a -- ls -n");
        check("run --ttl=5s --wait 3 a ls --wait 3", "run --ttl=5s --wait 3 a -- ls --wait 3");
        check("run --timeout 3 a ls -- x", "run --timeout 3 a -- ls -- x");
        check("run --insecure a ls -l", "run --insecure a -- ls -l");
        check("run --insecure=true a ls -l", "run --insecure=true a -- ls -l");
        check("run a -c ls", "run a -c ls");
        check("run a", "run a");
    }

    #[test]
    fn after_locks_by_flag_the_first_word_is_the_command() {
        check("run -l a -l b ls -l", "run --all-words -l a -l b -- ls -l");
        check("run -lnb --lock=a ls", "run --all-words -lnb --lock=a -- ls");
        check("run -nl a -- ls -l", "run --all-words -nl a -- ls -l");
        check("run a -l b ls -l", "run a -l b -- ls -l");
    }

    #[test]
    fn nothing_else_is_touched() {
        check("run a -- ls -l", "run a -- ls -l");
        check("run -- a ls", "run -- a ls");
        check("acquire a -l b ls", "acquire a -l b ls");
    }
}
