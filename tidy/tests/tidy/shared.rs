//! Checks that the dialects share what is the same for all of them: their state, and why a request failed.
//!
//! A router is created for every worker and for every mount, so state that is created with it is not shared. Therefore
//! the folders of the dialects must not contain shared state. It belongs elsewhere, and `App` creates it once.

use crate::tree::Tree;
use crate::{check, planted};

const FOLDER: &str = "dialects/src/";
const KINDS: [&str; 4] = ["Mutex<", "RwLock<", "Atomic", "OnceLock<"];

fn shared_state(tree: &Tree) -> Vec<String> {
    let sources = tree.rust().filter(|(path, _)| path.starts_with(FOLDER));
    sources
        .flat_map(|(path, text)| {
            let lines = text.lines().enumerate();
            let found = lines.filter(|(_, line)| KINDS.iter().any(|kind| line.contains(kind)));
            found.map(move |(n, line)| format!("{path}:{}: {}", n + 1, line.trim()))
        })
        .collect()
}

#[test]
fn dialects_make_no_shared_state_of_their_own() {
    check(shared_state);
}

#[test]
fn a_mutex_in_a_dialect_is_found() {
    let found = planted(
        shared_state,
        &[
            ("dialects/src/new/mod.rs", "struct New {\n    turns: Arc<Mutex<()>>,\n}\n"),
            ("content/src/turn.rs", "struct Turns(Arc<[Arc<Mutex<()>>]>);\n"),
            ("engine/src/lib.rs", "struct Shared(Mutex<()>);\n"),
        ],
    );
    assert_eq!(found, ["dialects/src/new/mod.rs:2: turns: Arc<Mutex<()>>,"]);
}

/// The module that alone decides whether a failed request can be repeated, and when.
const FAILURE: &str = "failure";
const DECISIONS: [&str; 2] = ["RETRY_AFTER", "engine::Error::"];

/// Returns where a dialect decides itself what an error of the engine means, instead of rendering the failure.
fn own_classifications(tree: &Tree) -> Vec<String> {
    let is_error = |path: &str| path.ends_with("/error.rs") || path.ends_with("/refusal.rs");
    let sources = tree.rust().filter(|(path, _)| path.starts_with(FOLDER) && is_error(path));
    sources
        .filter(|(path, _)| !path[FOLDER.len()..].starts_with(FAILURE))
        .flat_map(|(path, text)| {
            let found = DECISIONS.into_iter().filter(move |word| text.contains(word));
            found.map(move |word| format!("{path}: {word}"))
        })
        .collect()
}

#[test]
fn failures_are_classified_once() {
    check(own_classifications);
}

#[test]
fn a_dialect_that_classifies_failures_itself_is_found() {
    let own = "match error {\n    engine::Error::Unknown => 1,\n}\n";
    let header = "headers.insert(header::RETRY_AFTER, one);\n";
    let [error, lock, refusal, failure] =
        ["new/error.rs", "new/lock.rs", "new/refusal.rs", "failure/error.rs"]
            .map(|path| format!("{FOLDER}{path}"));
    let files = [(&*error, own), (&*lock, own), (&*refusal, header), (&*failure, own)];
    let expected = [format!("{error}: engine::Error::"), format!("{refusal}: RETRY_AFTER")];
    assert_eq!(planted(own_classifications, &files), expected);
}
