//! Checks that the server never bypasses the permission check of the engine.
//!
//! `Permitted` is created in `auth/`, after the caller's rights are checked. Tests and the simulation can create it
//! without a check, but the server must not. What a request needs is declared beside its type, in the few files listed
//! here.

use crate::tree::Tree;
use crate::{check, planted};

/// The crates that answer requests.
const FOLDERS: [&str; 7] = [
    "auth/src/",
    "engine/src/",
    "content/src/",
    "http/src/",
    "dialects/src/",
    "server/src/",
    "cli/src/",
];
/// Where it is made, where it is offered to tests, and where the server ends waits by itself.
const ALLOWED: [&str; 3] =
    ["auth/src/permitted.rs", "engine/src/handle.rs", "server/src/reload/enforce.rs"];
/// Where it is declared which right a request needs, or why it needs none.
const DECLARING: [&str; 5] = [
    // Its bounds name what needs no check, and for which purpose.
    "auth/src/exempt.rs",
    "auth/src/need.rs",
    "dialects/src/backup.rs",
    "content/src/permit.rs",
    "engine/src/need.rs",
];
/// How a declaration looks.
const DECLARATIONS: [&str; 7] = [
    "governed! {",
    "own! {",
    "Governed for",
    "GovernedBy for",
    "Own for",
    "Exempt<",
    "Includes for",
];

fn sources(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.rust().filter(|(path, _)| FOLDERS.iter().any(|folder| path.starts_with(folder)))
}

fn unchecked(tree: &Tree) -> Vec<String> {
    let sources = sources(tree).filter(|(path, _)| !ALLOWED.contains(path));
    sources.flat_map(|(path, text)| lines_with(path, text, &["unchecked("])).collect()
}

fn declared(tree: &Tree) -> Vec<String> {
    let sources = sources(tree).filter(|(path, _)| !DECLARING.contains(path));
    sources.flat_map(|(path, text)| lines_with(path, text, &DECLARATIONS)).collect()
}

fn lines_with(path: &str, text: &str, words: &[&str]) -> Vec<String> {
    let lines = text.lines().enumerate();
    let found = lines.filter(|(_, line)| words.iter().any(|word| line.contains(word)));
    found.map(|(n, line)| format!("{path}:{}: {}", n + 1, line.trim())).collect()
}

#[test]
fn the_server_asks_nothing_unchecked() {
    check(unchecked);
}

#[test]
fn the_files_that_may_ask_unchecked_exist() {
    check(|tree| {
        let missing = ALLOWED.iter().chain(&DECLARING).filter(|path| tree.text(path).is_none());
        missing.map(ToString::to_string).collect()
    });
}

#[test]
fn what_a_request_needs_is_declared_where_it_is_looked_for() {
    check(declared);
}

#[test]
fn an_unchecked_question_is_found() {
    let line = "app.engine.ask_unchecked(renew)\n";
    let found = planted(
        unchecked,
        &[
            ("dialects/src/new/mod.rs", line),
            ("cli/src/new.rs", line),
            (ALLOWED[1], line),
            ("server/tests/storage/engine.rs", line),
        ],
    );
    let expected = ["dialects/src/new/mod.rs:1", "cli/src/new.rs:1"];
    assert_eq!(found, expected.map(|at| format!("{at}: {}", line.trim())));
}

#[test]
fn a_declaration_in_another_file_is_found() {
    for line in [
        "governed! {\n",
        "leasehold_auth::own! {\n",
        "impl Governed for Mine {\n",
        "impl leasehold_auth::Own for Mine {\n",
        "impl GovernedBy for Mine {\n",
        "impl Exempt<OwnLease> for Mine {}\n",
        "impl Includes for Mine {\n",
    ] {
        let path = "dialects/src/new/mod.rs";
        let found = planted(declared, &[(path, line), (DECLARING[0], line)]);
        assert_eq!(found, [format!("{path}:1: {}", line.trim())]);
    }
}
