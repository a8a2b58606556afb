//! One meaning per type name in each crate, and type names that are nouns.

use std::collections::BTreeMap;

use crate::layers::sources;
use crate::tree::Tree;
use crate::{check, planted};

/// How many structs, enums and traits of a crate share their name with an earlier one. A crate that is not listed has
/// none. These numbers only fall.
const SHARED: [(&str, usize); 8] = [
    ("auth", 2),
    ("cli", 8),
    ("conformance", 1),
    ("engine", 3),
    ("sdk", 2),
    ("server", 86),
    ("sim", 6),
    ("store", 10),
];

/// How many structs, enums and traits of a crate are named by a bare participle. A crate that is not listed has none.
/// These numbers only fall.
const PARTICIPLES: [(&str, usize); 9] = [
    ("auth", 1),
    ("cli", 2),
    ("conformance", 4),
    ("core", 2),
    ("engine", 8),
    ("sdk", 1),
    ("server", 11),
    ("sim", 2),
    ("store", 3),
];

/// Names that say what happened to a thing and not what the thing is.
const BARE: [&str; 7] = ["Asked", "Wanted", "Seen", "Found", "Known", "Told", "Held"];

/// How far a crate may be below its number before the number must follow.
const SLACK: usize = 3;

#[test]
fn a_type_name_has_one_meaning_per_crate() {
    check(|tree| shared(tree, &SHARED));
}

#[test]
fn types_are_named_by_nouns() {
    check(|tree| participles(tree, &PARTICIPLES));
}

/// The names of the structs, enums and traits in a text.
fn types(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(')').map_or("", |(_, rest)| rest),
            None => rest,
        });
        let line = line.trim_start();
        let name =
            ["struct ", "enum ", "trait "].iter().find_map(|kind| line.strip_prefix(kind))?;
        let end = name.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(name.len());
        name.starts_with(char::is_uppercase).then(|| &name[..end])
    })
}

/// The number of definitions of each type name, by crate.
fn definitions(tree: &Tree) -> BTreeMap<&str, BTreeMap<String, usize>> {
    let mut crates = BTreeMap::<_, BTreeMap<_, _>>::new();
    for (name, files) in sources(tree) {
        let all: &mut BTreeMap<_, usize> = crates.entry(name).or_default();
        let files = files.iter().filter(|(path, _)| !path.starts_with("bin/"));
        for defined in files.flat_map(|(_, text)| types(text)) {
            *all.entry(defined.to_owned()).or_default() += 1;
        }
    }
    crates
}

fn shared(tree: &Tree, ceilings: &[(&str, usize)]) -> Vec<String> {
    over(tree, ceilings, "definitions share a name", |_, n| n - 1)
}

fn participles(tree: &Tree, ceilings: &[(&str, usize)]) -> Vec<String> {
    over(tree, ceilings, "types are named by a participle", |name, n| {
        if BARE.contains(&name) { n } else { 0 }
    })
}

fn over(
    tree: &Tree,
    ceilings: &[(&str, usize)],
    what: &str,
    count: impl Fn(&str, usize) -> usize,
) -> Vec<String> {
    let mut offenders = Vec::new();
    for (crate_folder, all) in definitions(tree) {
        let counts = all.iter().map(|(name, n)| (name, count(name, *n)));
        let counts: Vec<_> = counts.filter(|(_, n)| *n > 0).collect();
        let n: usize = counts.iter().map(|(_, n)| n).sum();
        let ceiling = ceilings.iter().find(|(known, _)| *known == crate_folder);
        let max = ceiling.map_or(0, |(_, max)| *max);
        let names: Vec<_> = counts.iter().map(|(name, _)| name.as_str()).collect();
        if n > max {
            let names = names.join(", ");
            offenders.push(format!("{crate_folder}: {n} {what}, {max} at most: {names}"));
        } else if n + SLACK < max {
            offenders.push(format!("{crate_folder}: {n} {what}, lower its number from {max}"));
        }
    }
    offenders
}

#[test]
fn a_shared_name_is_found() {
    let files = [
        ("a/src/x.rs", "pub struct Place;\npub(super) enum Part {\n"),
        ("a/src/y.rs", "struct Place(u8);\npub(in crate::dialect) trait Part {\n"),
        ("a/src/z.rs", "type Place = u8;\n#[cfg(test)]\nmod tests {\n    struct Place;\n}\n"),
        ("b/src/x.rs", "struct Place;\n"),
    ];
    let two = |tree: &Tree| shared(tree, &[("a", 2)]);
    assert_eq!(planted(two, &files), [""; 0]);
    let one = |tree: &Tree| shared(tree, &[("a", 1)]);
    assert_eq!(planted(one, &files), ["a: 2 definitions share a name, 1 at most: Part, Place"]);
    let many = |tree: &Tree| shared(tree, &[("a", 3 + SLACK)]);
    assert_eq!(planted(many, &files), ["a: 2 definitions share a name, lower its number from 6"]);
}

#[test]
fn a_participle_is_found() {
    let files = [("a/src/x.rs", "struct Wanted {\nstruct WantedLock {\nenum Held<'a> {\n")];
    let none = |tree: &Tree| participles(tree, &[]);
    let should = ["a: 2 types are named by a participle, 0 at most: Held, Wanted"];
    assert_eq!(planted(none, &files), should);
}
