//! Source files: each belongs to its crate, and each describes its contents.

use std::collections::BTreeSet;

use crate::tree::Tree;
use crate::{check, planted};

#[test]
fn every_source_file_is_reached_by_a_mod() {
    check(unreached);
}

#[test]
fn every_source_file_begins_with_a_module_doc() {
    check(undocumented);
}

fn undocumented(tree: &Tree) -> Vec<String> {
    tree.rust()
        .filter(|(path, text)| in_src(path).is_some() && !text.starts_with("//!"))
        .map(|(path, _)| path.into())
        .collect()
}

/// Returns the files that the compiler does not read. A `#[path]` and a `mod name;` within a `mod { }` are not
/// followed, because the project uses neither.
fn unreached(tree: &Tree) -> Vec<String> {
    let sources: Vec<_> = tree.rust().filter(|(path, _)| in_src(path).is_some()).collect();
    let mut reached = BTreeSet::new();
    let mut to_read: Vec<String> = sources
        .iter()
        .map(|(path, _)| *path)
        .filter(|path| is_root(path))
        .map(String::from)
        .collect();
    while let Some(path) = to_read.pop() {
        let Some(text) = tree.text(&path).filter(|_| !reached.contains(&path)) else { continue };
        let folder = children_folder(&path);
        for name in text.lines().filter_map(module_name) {
            to_read.push(format!("{folder}/{name}.rs"));
            to_read.push(format!("{folder}/{name}/mod.rs"));
        }
        reached.insert(path);
    }
    sources
        .iter()
        .filter(|(path, _)| !reached.contains(*path))
        .map(|(path, _)| (*path).into())
        .collect()
}

/// Returns the path below the crate's `src/`, if the file is there.
fn in_src(path: &str) -> Option<&str> {
    path.split_once("/src/").map(|(_, below)| below)
}

/// Returns whether the compiler starts to read at this file: a library, a binary, or an additional binary.
fn is_root(path: &str) -> bool {
    let steps: Vec<_> = in_src(path).into_iter().flat_map(|below| below.split('/')).collect();
    matches!(steps[..], ["lib.rs" | "main.rs"] | ["bin", _] | ["bin", _, "main.rs"])
}

/// Returns the folder of the modules that a file declares.
fn children_folder(path: &str) -> &str {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    if is_root(path) || name == "mod.rs" { folder } else { path.trim_end_matches(".rs") }
}

/// Returns the name in `mod name;`, with any visibility.
fn module_name(line: &str) -> Option<&str> {
    let (visibility, rest) = line.trim_start().split_once("mod ")?;
    let visible = visibility.is_empty() || visibility.starts_with("pub");
    rest.split_once(';').map(|(name, _)| name).filter(|_| visible)
}

#[test]
fn a_dead_source_file_is_found() {
    let files = [
        ("a/src/lib.rs", "mod b;\n    pub(crate) mod c;\n// mod dead;\nmod inline {\n}\n"),
        ("a/src/b.rs", "mod deep;\n"),
        ("a/src/b/deep.rs", ""),
        ("a/src/c/mod.rs", "mod near;\n"),
        ("a/src/c/near.rs", ""),
        ("a/src/c/deep.rs", ""),
        ("a/src/bin/tool.rs", "mod b;\n"),
        ("a/src/dead.rs", "mod child;\n"),
        ("a/src/dead/child.rs", ""),
        ("a/src/inline.rs", ""),
        ("a/tests/alone.rs", ""),
        ("rootless/src/b.rs", ""),
    ];
    let dead = [
        "a/src/c/deep.rs",
        "a/src/dead.rs",
        "a/src/dead/child.rs",
        "a/src/inline.rs",
        "rootless/src/b.rs",
    ];
    assert_eq!(planted(unreached, &files), dead);
}

#[test]
fn a_source_file_without_a_module_doc_is_found() {
    let files = [
        ("a/src/lib.rs", "use std::fs;\n//! Too late.\n"),
        ("a/src/b.rs", "/// Of the next item.\n"),
        ("a/src/c.rs", "//! What lives here.\n"),
        ("a/tests/d.rs", "use std::fs;\n"),
    ];
    assert_eq!(planted(undocumented, &files), ["a/src/lib.rs", "a/src/b.rs"]);
}
