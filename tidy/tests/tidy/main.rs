//! The project's rules that a tool can check, each as a test over all files that git knows.
//!
//! A rule is a function from a [`Tree`] to its violations. One test runs it over the real tree, and another over a tree
//! with planted violations, which shows that the rule can find something.

mod database;
mod layers;
mod manifest;
mod markdown;
mod modules;
mod names;
mod permitted;
mod scripts;
mod shared;
mod size;
mod supply;
mod text;
mod tree;
mod words;

use tree::Tree;

/// Fails with one violation per line.
#[track_caller]
fn check(rule: impl Fn(&Tree) -> Vec<String>) {
    let offenders = rule(&Tree::read());
    assert!(offenders.is_empty(), "offenders:\n  {}\n", offenders.join("\n  "));
}

/// Returns what a rule finds in a tree with these paths and texts.
fn planted(rule: impl Fn(&Tree) -> Vec<String>, files: &[(&str, &str)]) -> Vec<String> {
    rule(&Tree::of(files))
}
