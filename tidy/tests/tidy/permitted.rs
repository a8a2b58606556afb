//! Checks that the server never bypasses the permission check of the engine.
//!
//! `Permitted` is created in `auth/`, after the caller's rights are checked. Tests and the simulation can create it
//! without a check, but the server must not.

use crate::tree::Tree;
use crate::{check, planted};

const FOLDER: &str = "server/src/";
/// The file that creates it, and the file that offers it to tests.
const ALLOWED: [&str; 2] = ["server/src/auth/permitted.rs", "server/src/engine/handle.rs"];

fn unchecked(tree: &Tree) -> Vec<String> {
    let sources =
        tree.rust().filter(|(path, _)| path.starts_with(FOLDER) && !ALLOWED.contains(path));
    sources
        .flat_map(|(path, text)| {
            let lines = text.lines().enumerate();
            let found = lines.filter(|(_, line)| line.contains("unchecked("));
            found.map(move |(n, line)| format!("{path}:{}: {}", n + 1, line.trim()))
        })
        .collect()
}

#[test]
fn the_server_asks_nothing_unchecked() {
    check(unchecked);
}

#[test]
fn an_unchecked_question_is_found() {
    let line = "app.engine.ask_unchecked(renew)\n";
    let found = planted(
        unchecked,
        &[
            ("server/src/dialect/new/mod.rs", line),
            ("server/src/engine/handle.rs", line),
            ("server/tests/storage/engine.rs", line),
        ],
    );
    assert_eq!(found, ["server/src/dialect/new/mod.rs:1: app.engine.ask_unchecked(renew)"]);
}
