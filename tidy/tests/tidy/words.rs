//! Words that the project does not use in comments, messages and test names, because they hide who acts.
//!
//! Name the role instead (client, holder, waiter, operator, server), or leave it out if it does not matter.

use crate::tree::Tree;
use crate::{check, planted};

/// Split into parts, so that this file does not violate the rule itself.
const WORDS: [&str; 11] = [
    concat!("who", "ever"),
    concat!("whom", "ever"),
    concat!("some", "body"),
    concat!("no", "body"),
    concat!("every", "body"),
    concat!("any", "body"),
    concat!("a", "new"),
    concat!("is ", "none"),
    concat!("several ", "servers"),
    concat!("given ", "back"),
    concat!("put ", "aside"),
];

/// Directories whose scripts are checked in addition to all Rust files.
const SCRIPTS: [&str; 4] = ["ops/", "packaging/", "scripts/", "testkit/"];
/// The documents that the project was written after, in their own words.
const DOCUMENTS: &str = "testkit/walk/";

/// Texts that must stay as they are: a part of the journal format, a word of Python, and the name of a user on Unix.
const FIXED: [&str; 6] = [
    concat!("\"some", "body waits"),
    concat!("is No", "ne"),
    concat!("-o no", "body"),
    concat!("chown no", "body"),
    concat!("user=no", "body"),
    concat!("reuid=no", "body"),
];

#[test]
fn actors_are_named() {
    check(unnamed);
}

fn unnamed(tree: &Tree) -> Vec<String> {
    let is_script = |path: &str| SCRIPTS.iter().any(|folder| path.starts_with(folder));
    let files = tree.texts().filter(|(path, _)| {
        path.ends_with(".rs") || is_script(path) && !path.starts_with(DOCUMENTS)
    });
    let mut offenders = Vec::new();
    for (path, text) in files {
        for (n, line) in text.lines().enumerate() {
            let line = FIXED.iter().fold(line.to_owned(), |line, fixed| line.replace(fixed, ""));
            let (line, name) = (line.to_lowercase(), name(&line).replace('_', " ").to_lowercase());
            let is_said = |word: &&&str| has_word(&line, word) || has_word(&name, word);
            let said = WORDS.iter().filter(is_said);
            offenders.extend(said.map(|word| format!("{path}:{}: says `{word}`", n + 1)));
        }
    }
    offenders
}

/// Returns the name of the function that a line declares, if it is a sentence such as the name of a test.
fn name(line: &str) -> &str {
    let name = line.split_once("fn ").map_or("", |(_, rest)| rest);
    let name = name.split(|c: char| c != '_' && !c.is_alphanumeric()).next().unwrap_or_default();
    if name.split('_').count() > 2 { name } else { "" }
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c == '_' || c.is_alphanumeric();
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.into_iter().chain(after).any(is_part)
    })
}

#[test]
fn every_word_is_found_in_comments_messages_and_test_names() {
    for word in WORDS {
        let title = format!("{}{}", word[..1].to_uppercase(), &word[1..]);
        let comment = format!("fine\n/// {title} waits.\n");
        let message = format!("return Err(\"{word} leads\");\n");
        let test = format!("async fn a_lock_{}_waits() {{\n", word.replace(' ', "_"));
        let script = format!("# {word}: later\n");
        let files = [
            ("core/a.rs", comment.as_str()),
            ("core/b.rs", &message),
            ("core/c.rs", &test),
            ("docs/d.md", &script),
            ("scripts/e", &script),
            ("testkit/walk/f.txt", &script),
        ];
        let says = format!("says `{word}`");
        let should = ["core/a.rs:2", "core/b.rs:1", "core/c.rs:1", "scripts/e:1"];
        assert_eq!(planted(unnamed, &files), should.map(|at| format!("{at}: {says}")));
    }
}

#[test]
fn parts_of_words_and_fixed_texts_are_not_found() {
    let fixed = FIXED.map(|fixed| format!("say {fixed}\n")).concat();
    let files = [
        (
            "a.rs",
            "if list.is_none() || is_none_or(x) {\nfn is_none() -> bool {\nlet can = 1; // a newt\n",
        ),
        ("b.rs", &fixed),
    ];
    assert_eq!(planted(unnamed, &files), [""; 0]);
}
