//! The order of the crates: which may use which, how large each may be, and how entangled its modules may be.

use std::collections::{BTreeMap, BTreeSet};

use crate::manifest::dependencies;
use crate::tree::Tree;
use crate::{check, planted};

/// The folders of the crates, from the bottom up, and the crates of ours that each may use. A crate may only use crates
/// above it in this table, so the table has no cycle. What is for tests comes last.
const LAYERS: [(&str, &[&str]); 20] = [
    ("core", &[]),
    ("api", &[]),
    ("etcd", &[]),
    ("judge", &[]),
    ("base", &["core"]),
    ("auth", &["core", "base"]),
    ("store", &["core", "base", "etcd"]),
    ("engine", &["core", "base", "auth", "store"]),
    ("content", &["core", "base", "auth"]),
    ("http", &["core", "base", "auth", "store", "engine"]),
    ("dialects", &["core", "api", "base", "auth", "store", "engine", "content", "http"]),
    (
        "server",
        &["core", "api", "etcd", "base", "auth", "store", "engine", "content", "http", "dialects"],
    ),
    ("sdk", &["api"]),
    ("cli", &["core", "judge", "base", "auth", "store", "engine", "server", "sdk"]),
    ("testkit", &["core", "api", "etcd", "base", "auth", "store", "engine", "server", "sdk"]),
    ("conformance", &["api", "judge", "sdk", "testkit"]),
    ("sim", &["core", "etcd", "judge", "base", "auth", "store", "engine", "server", "testkit"]),
    ("bench", &["core", "api", "etcd", "base", "store", "engine", "server", "sdk", "testkit"]),
    ("fuzz", &["core", "base", "auth", "store", "engine", "server", "testkit"]),
    ("tidy", &[]),
];

/// The largest cycle among the top-level modules of a crate. A crate that is not listed has none. These numbers only
/// fall.
const CYCLES: [(&str, usize); 13] = [
    ("auth", 18),
    ("bench", 4),
    ("cli", 2),
    ("conformance", 3),
    ("content", 3),
    // The parts of one model.
    ("core", 23),
    ("dialects", 3),
    ("engine", 15),
    ("http", 5),
    ("sdk", 14),
    ("server", 5),
    ("sim", 2),
    ("store", 2),
];

/// A crate has at most this many lines, without its tests.
const LINES_MAX: usize = 20_000;
/// A crate that is still larger. These numbers only fall.
const LARGE: [(&str, usize); 0] = [];
/// How far a crate may be below its number in [`LARGE`] before the number must follow.
const SLACK: usize = 500;

#[test]
fn crates_use_only_what_is_below_them() {
    check(arrows);
}

#[test]
fn modules_of_a_crate_are_not_entangled() {
    check(|tree| cycles(tree, &CYCLES));
}

#[test]
fn no_crate_is_too_large() {
    check(|tree| large(tree, &LARGE));
}

/// The folder of one of our crates, from the name of its package.
fn folder(package: &str) -> Option<&str> {
    if package == "leasehold" { Some("sdk") } else { package.strip_prefix("leasehold-") }
}

fn arrows(tree: &Tree) -> Vec<String> {
    let mut offenders = Vec::new();
    for (at, (crate_folder, allowed)) in LAYERS.iter().enumerate() {
        let is_below = |name: &str| LAYERS[..at].iter().any(|(below, _)| *below == name);
        let up = allowed.iter().filter(|name| !is_below(name));
        offenders.extend(up.map(|name| format!("the table: {crate_folder} may not use {name}")));
    }
    let manifests = tree.texts().filter_map(|(path, text)| {
        let crate_folder = path.strip_suffix("/Cargo.toml")?;
        (!crate_folder.contains('/')).then_some((crate_folder, text))
    });
    for (crate_folder, manifest) in manifests {
        let Some((_, allowed)) = LAYERS.iter().find(|(known, _)| *known == crate_folder) else {
            offenders.push(format!("{crate_folder}/Cargo.toml: the crate is not in the table"));
            continue;
        };
        let used = dependencies(manifest).into_iter().filter_map(folder);
        let wrong = used.filter(|name| !allowed.contains(name));
        offenders.extend(wrong.map(|name| format!("{crate_folder}/Cargo.toml: uses {name}")));
    }
    offenders
}

/// The source files of each crate, by its folder: path below `src/` and text without comments and tests.
pub(crate) fn sources(tree: &Tree) -> BTreeMap<&str, Vec<(&str, String)>> {
    let mut crates = BTreeMap::<_, Vec<_>>::new();
    for (path, text) in tree.rust() {
        let Some((crate_folder, below)) = path.split_once("/src/") else { continue };
        let is_test = below.split(['/', '.']).any(|step| step == "tests");
        if is_test || crate_folder.contains('/') {
            continue;
        }
        // Tests in a file come last.
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
        crates.entry(crate_folder).or_default().push((below, text.to_owned()));
    }
    crates
}

fn large(tree: &Tree, exceptions: &[(&str, usize)]) -> Vec<String> {
    let mut offenders = Vec::new();
    for (name, files) in sources(tree) {
        let n_lines: usize = files.iter().map(|(_, text)| text.lines().count()).sum();
        let exception = exceptions.iter().find(|(known, _)| *known == name).map(|(_, max)| *max);
        let max = exception.unwrap_or(LINES_MAX);
        if n_lines > max {
            offenders.push(format!("{name}: {n_lines} lines, {max} at most"));
        } else if exception.is_some_and(|max| n_lines + SLACK < max) {
            offenders.push(format!("{name}: {n_lines} lines, lower its number from {max}"));
        }
    }
    offenders
}

fn cycles(tree: &Tree, ceilings: &[(&str, usize)]) -> Vec<String> {
    let mut offenders = Vec::new();
    for (name, files) in sources(tree) {
        let found = largest_cycle(&arrows_among_modules(&files));
        let ceiling = ceilings.iter().find(|(known, _)| *known == name).map_or(0, |(_, n)| *n);
        if found.len() != ceiling {
            let members = found.join(", ");
            offenders.push(format!(
                "{name}: a cycle of {} modules, {ceiling} expected: {members}",
                found.len()
            ));
        }
    }
    offenders
}

/// Which top-level module names which other.
type Arrows<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn arrows_among_modules<'a>(files: &'a [(&'a str, String)]) -> Arrows<'a> {
    let module = |path: &'a str| path.split(['/', '.']).next().unwrap_or(path);
    let is_root = |path: &str| path == "lib.rs" || path == "main.rs";
    let modules: BTreeSet<_> =
        files.iter().map(|(path, _)| module(path)).filter(|name| *name != "bin").collect();
    // What the root offers under its own name comes from one of the modules.
    let mut offered = BTreeMap::new();
    for (_, text) in files.iter().filter(|(path, _)| is_root(path)) {
        for line in uses(text) {
            let Some((from, names)) = line.split_once("::") else { continue };
            let names = names.split(|c: char| !is_name(c)).filter(|name| !name.is_empty());
            if modules.contains(from) {
                offered.extend(names.map(|name| (name, from)));
            }
        }
    }
    let mut arrows = Arrows::new();
    for (path, text) in files.iter().filter(|(path, _)| !is_root(path)) {
        let depth = path.trim_end_matches("/mod.rs").split('/').count();
        let up = "super::".repeat(depth);
        let mut named = heads(text, "crate::");
        named.extend(heads(text, &up));
        let named = named
            .into_iter()
            .filter_map(|name| modules.get(name).copied().or_else(|| offered.get(name).copied()));
        let from = module(path);
        arrows.entry(from).or_default().extend(named.filter(|name| *name != from));
    }
    arrows
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// What stands between `use` and `;`, for each use at the beginning of a line.
fn uses(text: &str) -> impl Iterator<Item = &str> {
    let statements = text.split(';');
    statements.filter_map(|statement| {
        let at = statement.rfind("use ")?;
        let before = statement[..at].rsplit('\n').next().unwrap_or_default();
        (before.is_empty() || before.starts_with("pub")).then_some(&statement[at + 4..])
    })
}

/// The names that follow this prefix, alone or in braces. Comments do not count.
fn heads<'a>(text: &'a str, prefix: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices(prefix) {
        let line = text[..at].rsplit('\n').next().unwrap_or_default();
        let is_longer = line.ends_with(|c: char| is_name(c) || c == ':' || c == '$');
        if line.contains("//") || is_longer {
            continue;
        }
        let rest = &text[at + prefix.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.insert(rest.split(|c| !is_name(c)).next().unwrap_or_default());
            continue;
        };
        let (mut depth, mut start) = (0, 0);
        for (end, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    let item = group[start..end].trim();
                    found.insert(item.split(|c| !is_name(c)).next().unwrap_or_default());
                    start = end + 1;
                    if c == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// The largest set of modules of which each reaches each other; empty if there is no cycle.
fn largest_cycle<'a>(arrows: &Arrows<'a>) -> Vec<&'a str> {
    let reached = |from: &'a str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(at) = next.pop() {
            let news = arrows.get(at).into_iter().flatten().filter(|to| seen.insert(**to));
            next.extend(news.copied().collect::<Vec<_>>());
        }
        seen
    };
    let reaches: BTreeMap<_, _> = arrows.keys().map(|from| (*from, reached(from))).collect();
    let cycle = |from: &&'a str| -> Vec<&'a str> {
        let back = |to: &&&'a str| reaches.get(**to).is_some_and(|reached| reached.contains(from));
        reaches[from].iter().filter(back).copied().collect()
    };
    reaches.keys().map(cycle).max_by_key(Vec::len).unwrap_or_default()
}

#[test]
fn an_arrow_up_is_found() {
    let files = [
        ("engine/Cargo.toml", "[dependencies]\nleasehold-store.workspace = true\n"),
        ("store/Cargo.toml", "[dependencies]\nleasehold-engine = { path = \"../engine\" }\n"),
        ("auth/Cargo.toml", "[dev-dependencies]\nleasehold-server.workspace = true\n"),
        ("cli/Cargo.toml", "[dependencies]\nleasehold.workspace = true\nserde = \"1\"\n"),
        ("new/Cargo.toml", "[dependencies]\n"),
        ("Cargo.toml", "[workspace.dependencies]\nleasehold-sim = \"1\"\n"),
    ];
    let expected =
        ["store/Cargo.toml: uses engine", "new/Cargo.toml: the crate is not in the table"];
    assert_eq!(planted(arrows, &files), expected);
}

#[test]
fn a_cycle_of_modules_is_found() {
    let files = [
        ("a/src/lib.rs", "mod x;\nmod y;\nmod z;\npub use z::{Thing, Other};\n"),
        ("a/src/x.rs", "use crate::y::Y;\n// crate::z\n"),
        ("a/src/y/mod.rs", "mod deep;\n"),
        ("a/src/y/deep.rs", "use super::super::{\n    Thing,\n};\n"),
        ("a/src/z.rs", "#[cfg(test)]\nmod tests {\n    use crate::x::X;\n}\n"),
        ("b/src/lib.rs", "mod p;\nmod q;\nmod r;\n"),
        ("b/src/p.rs", "use super::{q::Q, r};\n"),
        ("b/src/q.rs", "fn f() { crate::p::f() }\n"),
        ("b/src/r.rs", "use leasehold_crate::p;\n"),
    ];
    let rule = |tree: &Tree| cycles(tree, &[]);
    assert_eq!(planted(rule, &files), ["b: a cycle of 2 modules, 0 expected: p, q"]);
    assert_eq!(planted(|tree| cycles(tree, &[("b", 2)]), &files), [""; 0]);
    let closed = ("a/src/z.rs", "use super::x::X;\n");
    let found = planted(rule, &[files[0], files[1], files[2], files[3], closed]);
    assert_eq!(found, ["a: a cycle of 3 modules, 0 expected: x, y, z"]);
    let found = planted(|tree| cycles(tree, &[("b", 3)]), &files);
    assert_eq!(found, ["b: a cycle of 2 modules, 3 expected: p, q"]);
}

#[test]
fn a_large_crate_is_found() {
    let long = "x\n".repeat(LINES_MAX + 1);
    let tested = format!("x\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
    let files = [("a/src/b.rs", &*long), ("c/src/lib.rs", &*tested), ("c/src/tests.rs", &*long)];
    let rule = |tree: &Tree| large(tree, &[]);
    assert_eq!(planted(rule, &files), ["a: 20001 lines, 20000 at most"]);
    let max = LINES_MAX + 1 + SLACK;
    assert_eq!(planted(|tree| large(tree, &[("a", max)]), &files), [""; 0]);
    let found = planted(|tree| large(tree, &[("a", max + 1)]), &files);
    assert_eq!(found, [format!("a: 20001 lines, lower its number from {}", max + 1)]);
}
