//! Checks that every requirement of LS-SPEC-001 is in the table of `docs/reference/leases.md` and has a test that
//! names its id.

use std::fs;
use std::path::Path;

const REQUIREMENTS: [&str; 22] = [
    "LS-INV-001",
    "LS-INV-002",
    "LS-INV-003",
    "LS-INV-004",
    "LS-ACQ-001",
    "LS-ACQ-002",
    "LS-ACQ-003",
    "LS-ACQ-004",
    "LS-RNW-001",
    "LS-RNW-002",
    "LS-RNW-003",
    "LS-REL-001",
    "LS-REL-002",
    "LS-REL-003",
    "LS-CC-001",
    "LS-EXP-001",
    "LS-AUTH-001",
    "LS-FENCE-001",
    "LS-ACC-01",
    "LS-ACC-02",
    "LS-ACC-03",
    "LS-ACC-04",
];

/// A test: its name, and the text of its doc comment.
struct Test {
    name: String,
    says: String,
}

#[test]
fn every_requirement_has_a_test_and_a_row() {
    let tests = tests();
    let rows = rows();
    for id in REQUIREMENTS {
        let as_name = id.to_lowercase().replace('-', "_");
        let says_it = |test: &&Test| test.says.contains(id) || test.name.contains(&as_name);
        let proven: Vec<_> = tests.iter().filter(says_it).map(|test| &test.name).collect();
        assert!(!proven.is_empty(), "{id} has no test");
        let (_, row) = rows.iter().find(|(row, _)| row == id).expect(id);
        let names_one = proven.iter().any(|name| row.contains(&format!("`{name}`")));
        assert!(names_one, "{id}: its row names none of {proven:?}");
    }
}

#[test]
fn every_test_and_file_the_table_names_exists() {
    let tests = tests();
    for (id, row) in rows() {
        assert!(REQUIREMENTS.contains(&id.as_str()), "{id} is no requirement");
        for name in row.split('`').skip(1).step_by(2) {
            let is_file = root().join(name).exists();
            let is_test = tests.iter().any(|test| test.name == name);
            assert!(is_file || is_test, "{id}: there is no {name}");
        }
    }
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Returns the rows of the table: the id, and the rest of the line.
fn rows() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("docs/reference/leases.md")).expect("the document");
    let row = |line: &str| {
        let (id, rest) = line.strip_prefix("| LS-")?.split_once(" | ")?;
        Some((format!("LS-{id}"), rest.to_owned()))
    };
    text.lines().filter_map(row).collect()
}

fn tests() -> Vec<Test> {
    let folder = root().join("server/tests/protocols/dialects/leases");
    let files = fs::read_dir(folder).expect("this folder").map(|entry| entry.expect("a file"));
    let texts = files.map(|file| fs::read_to_string(file.path()).expect("a text"));
    texts.flat_map(|text| tests_in(&text)).collect()
}

fn tests_in(text: &str) -> Vec<Test> {
    let (mut tests, mut says, mut is_test) = (Vec::new(), String::new(), false);
    for line in text.lines() {
        if let Some(doc) = line.strip_prefix("/// ") {
            says.push_str(doc);
        } else if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
            let name = rest.split('(').next().unwrap_or_default().to_owned();
            tests.push(Test { name, says: std::mem::take(&mut says) });
            is_test = false;
        } else if !line.starts_with("#[") {
            says.clear();
        }
    }
    tests
}
