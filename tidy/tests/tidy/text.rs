//! Content that no text file may have: leftovers of work in progress, and invisible bytes.

use crate::tree::Tree;
use crate::{check, planted};

const LINE_CHARS_MAX: usize = 120;

/// Split into parts, so that this file does not violate the rule itself.
const LEFTOVER_CALLS: [&str; 4] = [
    concat!("to", "do!("),
    concat!("un", "implemented!("),
    concat!("db", "g!("),
    concat!("#[", "ignore"),
];
const LEFTOVER_WORDS: [&str; 3] = [concat!("FIX", "ME"), concat!("XX", "X"), concat!("TO", "DO")];

#[test]
fn no_work_in_progress_is_left_over() {
    check(leftovers);
}

#[test]
fn no_line_ends_in_white_space() {
    check(trailing_space);
}

#[test]
fn no_source_file_has_a_tab() {
    check(tabs);
}

#[test]
fn no_source_line_is_too_long() {
    check(long_lines);
}

#[test]
fn every_text_file_ends_with_exactly_one_newline() {
    check(endings);
}

#[test]
fn no_scenario_is_empty() {
    check(empty_scenarios);
}

fn leftovers(tree: &Tree) -> Vec<String> {
    let call = |line: &str| LEFTOVER_CALLS.into_iter().find(|call| line.contains(call));
    let word = |line: &str| LEFTOVER_WORDS.into_iter().find(|word| has_word(line, word));
    lines(tree.texts(), |line| Some(format!("says `{}`", call(line).or_else(|| word(line))?)))
}

/// Returns whether the word occurs separately: the X sequence in a template for `mktemp` is not a marker.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.into_iter().chain(after).any(char::is_alphanumeric)
    })
}

fn trailing_space(tree: &Tree) -> Vec<String> {
    lines(tree.texts(), |line| {
        line.ends_with(char::is_whitespace).then(|| "white space at the end".into())
    })
}

fn tabs(tree: &Tree) -> Vec<String> {
    lines(tree.rust(), |line| line.contains('\t').then(|| "a tab".into()))
}

fn long_lines(tree: &Tree) -> Vec<String> {
    lines(tree.rust(), |line| {
        let n_chars = line.chars().count();
        (n_chars > LINE_CHARS_MAX)
            .then(|| format!("{n_chars} characters, {LINE_CHARS_MAX} at most"))
    })
}

/// Returns the violations of single lines with their positions. A carriage return belongs to its line.
fn lines<'a>(
    texts: impl Iterator<Item = (&'a str, &'a str)>,
    complaint: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut offenders = Vec::new();
    for (path, text) in texts {
        for (n, line) in text.split('\n').enumerate() {
            offenders.extend(complaint(line).map(|what| format!("{path}:{}: {what}", n + 1)));
        }
    }
    offenders
}

fn endings(tree: &Tree) -> Vec<String> {
    let offends = |text: &str| !text.ends_with('\n') || text.ends_with("\n\n") || text == "\n";
    tree.texts().filter(|(_, text)| offends(text)).map(|(path, _)| path.into()).collect()
}

fn empty_scenarios(tree: &Tree) -> Vec<String> {
    tree.texts()
        .filter(|(path, text)| {
            path.starts_with("core/tests/rules/scenarios/") && text.trim().is_empty()
        })
        .map(|(path, _)| path.into())
        .collect()
}

#[test]
fn every_leftover_is_found() {
    for leftover in LEFTOVER_CALLS.iter().chain(&LEFTOVER_WORDS) {
        let text = format!("fine\n// {leftover}: later\n");
        let found = planted(leftovers, &[("a.rs", &text), ("b.md", "fine\n")]);
        assert_eq!(found, [format!("a.rs:2: says `{leftover}`")]);
    }
    let template = format!("mktemp -d /tmp/data.{}\n", "X".repeat(6));
    assert_eq!(planted(leftovers, &[("a", &template)]), [""; 0]);
}

#[test]
fn invisible_bytes_are_found() {
    let files = [("a.md", "x \ny\n"), ("b.txt", "x\r\n"), ("c.rs", "\tx\n"), ("d.txt", "\tx\n")];
    let space = ["a.md:1: white space at the end", "b.txt:1: white space at the end"];
    assert_eq!(planted(trailing_space, &files), space);
    assert_eq!(planted(tabs, &files), ["c.rs:1: a tab"]);
    let files = [("a", "x\n"), ("b", "x"), ("c", "x\n\n"), ("d", ""), ("e", "\n")];
    assert_eq!(planted(endings, &files), ["b", "c", "d", "e"]);
}

#[test]
fn a_long_line_is_found_by_its_characters_not_its_bytes() {
    let long = format!("{}\n", "ä".repeat(LINE_CHARS_MAX + 1));
    let files = [("a.rs", long.as_str()), ("b.rs", &long[2..]), ("c.md", &long)];
    assert_eq!(planted(long_lines, &files), ["a.rs:1: 121 characters, 120 at most"]);
}

#[test]
fn an_empty_scenario_is_found() {
    let files = [
        ("core/tests/rules/scenarios/a.txt", "\n"),
        ("core/tests/rules/scenarios/b.txt", "acquire\n"),
        ("c.txt", "\n"),
    ];
    assert_eq!(planted(empty_scenarios, &files), ["core/tests/rules/scenarios/a.txt"]);
}
