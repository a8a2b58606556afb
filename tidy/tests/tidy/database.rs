//! Checks that only SQLite opens database files.
//!
//! SQLite's locks on a file end when any descriptor of that file in the process is closed. A commit then succeeds and
//! is lost. So there is only one other descriptor, in `dir_lock.rs`, and it outlives SQLite's own.

use crate::tree::Tree;
use crate::{check, planted};

const STORE: &str = "store/src/";
/// The source files that know the names of database files. Tests damage the files of stores that are not in use.
const NAMERS: [&str; 3] =
    ["store/src/sqlite/mod.rs", "store/src/folder/mod.rs", "testkit/src/damage.rs"];
const NAMES: [&str; 4] = ["\"journal.db\"", "\"tables.db\"", "\"journal.db-", "\"tables.db-"];
/// The source files that copy the files of a store that this process does not use.
const READERS: [&str; 2] = ["store/src/sqlite/source.rs", "store/src/sqlite/recover.rs"];
/// The source file with the one descriptor.
const LOCKER: &str = "store/src/folder/dir_lock.rs";
/// The source files that create files under other names.
const MAKERS: [&str; 6] = [
    "store/src/shared/memory.rs",
    "store/src/sqlite/mark.rs",
    "store/src/folder/reserve.rs",
    "store/src/folder/unfinished.rs",
    "store/src/folder/rights.rs",
    "store/src/folder/mod.rs",
];
const OPENS: [&str; 8] = [
    "File::",
    "OpenOptions",
    "fs::read(",
    "fs::write(",
    "fs::copy(",
    "read_to_string(",
    "openat(",
    "fs::open(",
];

#[test]
fn only_sqlite_opens_database_files() {
    check(openers);
}

fn openers(tree: &Tree) -> Vec<String> {
    let sources = tree.rust().filter(|(path, _)| path.contains("/src/"));
    let mut offenders = Vec::new();
    for (path, text) in sources {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            let is_named = NAMES.iter().any(|name| line.contains(name));
            if is_named && !NAMERS.contains(&path) {
                offenders
                    .push(format!("{path}: knows the name of a database file: {}", line.trim()));
            }
            let may_open = READERS.contains(&path) || path == LOCKER || MAKERS.contains(&path);
            let opens = OPENS.iter().any(|open| calls(line, open));
            if path.starts_with(STORE) && opens && !may_open {
                offenders.push(format!("{path}: opens a file: {}", line.trim()));
            }
        }
    }
    offenders
}

/// Returns whether the words occur in the line, and not as the end of a longer word.
fn calls(line: &str, words: &str) -> bool {
    let before = |at: usize| line[..at].chars().next_back();
    line.match_indices(words).any(|(at, _)| !before(at).is_some_and(char::is_alphanumeric))
}

#[test]
fn an_opener_of_a_database_is_found() {
    let files = [
        ("store/src/sqlite/mod.rs", "const JOURNAL: &str = \"journal.db\";\n"),
        ("store/src/sqlite/fold.rs", "// File::open would be wrong\nlet f = File::open(p);\n"),
        ("store/src/sqlite/load.rs", "let lock = LockFile::take(data)?;\n"),
        ("server/src/app.rs", "let path = data.join(\"tables.db\");\n"),
        ("server/tests/storage/store.rs", "let path = data.join(\"tables.db\");\n"),
    ];
    let found = [
        "store/src/sqlite/fold.rs: opens a file: let f = File::open(p);",
        "server/src/app.rs: knows the name of a database file: let path = data.join(\"tables.db\");",
    ];
    assert_eq!(planted(openers, &files), found);
}
