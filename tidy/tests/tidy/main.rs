//! The rules of the house that a tool can check, each as a test over every file git knows.
//!
//! A rule is a function from a [`Tree`] to its offenders. One test runs it over the real tree, another over a tree
//! with planted offenders: a rule that finds nothing must be shown to be able to find something.

mod database;
mod layers;
mod manifest;
mod markdown;
mod modules;
mod permitted;
mod scripts;
mod shared;
mod size;
mod supply;
mod text;
mod tree;

use tree::Tree;

/// Fails with one offender a line.
#[track_caller]
fn check(rule: impl Fn(&Tree) -> Vec<String>) {
    let offenders = rule(&Tree::read());
    assert!(offenders.is_empty(), "offenders:\n  {}\n", offenders.join("\n  "));
}

/// What a rule finds in a tree of these paths and texts.
fn planted(rule: impl Fn(&Tree) -> Vec<String>, files: &[(&str, &str)]) -> Vec<String> {
    rule(&Tree::of(files))
}
