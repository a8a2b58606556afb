//! Checks that the state that the handlers of a dialect share is created once, with the server.
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
