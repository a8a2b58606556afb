//! Checks the versions in docs/reference/sdk.md, and the scripts in the table of docs/internals/conformance.md.

use std::path::Path;

use leasehold_conformance::script::names;

const CLIENTS: &str = include_str!("../../../docs/reference/sdk.md");
const RESULTS: &str = include_str!("../../../docs/internals/conformance.md");

/// Returns the cells of the table after `heading` on a page, without its head.
fn table(page: &'static str, heading: &str) -> Vec<Vec<&'static str>> {
    let (_, after) = page.split_once(heading).unwrap_or_else(|| panic!("no {heading}"));
    let lines = after.lines().skip_while(|line| !line.starts_with('|'));
    let lines = lines.take_while(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).ok()
}

/// Returns the text between `before` and the next quote.
fn quoted(text: &str, before: &str) -> Option<String> {
    let (_, after) = text.split_once(before)?;
    after.split('"').next().map(Into::into)
}

/// Returns the version of each client in the order of the table, or `-` for a client that does not exist.
fn versions() -> Vec<String> {
    let rust = read("sdk/Cargo.toml").filter(|text| text.contains("version.workspace = true"));
    let python = read("sdks/python/src/leasehold/version.py");
    let typescript = read("sdks/typescript/package.json");
    let go = read("sdks/go/version.go");
    [
        rust.map(|_| env!("CARGO_PKG_VERSION").into()),
        python.and_then(|text| quoted(&text, "__version__ = \"")),
        typescript.and_then(|text| quoted(&text, "\"version\": \"")),
        go.and_then(|text| quoted(&text, "Version = \"")),
    ]
    .map(|version| version.unwrap_or("-".into()))
    .into()
}

#[test]
fn the_table_of_versions_is_true() {
    let table = table(CLIENTS, "## Compatibility");
    assert_eq!(table[0], ["server", "Rust", "Python", "TypeScript", "Go"]);
    let ours = table[2..].iter().find(|row| row[0] == env!("CARGO_PKG_VERSION"));
    let ours = ours.expect("a row for the version of this server");
    assert_eq!(ours[1..], versions(), "the clients' versions are in their manifests");
}

#[test]
fn a_client_that_is_there_has_a_version() {
    for (folder, version) in
        ["sdk", "sdks/python", "sdks/typescript", "sdks/go"].iter().zip(versions())
    {
        let is_there = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).is_dir();
        assert_eq!(is_there, version != "-", "{folder} is there, and its version is {version}");
    }
}

#[test]
fn the_results_are_of_all_scripts_and_none_failed() {
    let table = table(RESULTS, "<!-- results -->");
    let named: Vec<_> = table[2..].iter().map(|row| row[0].trim_matches('`')).collect();
    let scripts: Vec<_> = names().chain(["passed"]).collect();
    assert_eq!(
        named, scripts,
        "scripts/conformance --write docs/internals/conformance.md writes the table"
    );
    for row in &table[2..] {
        assert_eq!(row.len(), table[0].len(), "{row:?}");
        assert!(!row.contains(&"FAILED"), "{row:?}");
    }
}

/// A Go module is downloaded from the location in its name. As long as the repository has no location, the module has
/// an impossible name, and its README explains what to do.
#[test]
fn the_go_module_is_called_after_the_repository() {
    let module = read("sdks/go/go.mod").unwrap_or_default();
    let module = module.lines().next().and_then(|line| line.strip_prefix("module "));
    match quoted(&read("Cargo.toml").unwrap_or_default(), "\nrepository = \"") {
        Some(url) => {
            let place = url.trim_start_matches("https://").trim_end_matches(".git").to_owned();
            assert_eq!(module, Some(&*format!("{place}/sdks/go")), "as `repository` in Cargo.toml");
        }
        None => {
            assert_eq!(module, Some("leasehold.example/go"));
            let readme = read("sdks/go/README.md").unwrap_or_default();
            assert!(readme.contains("`leasehold.example/go` is a placeholder"), "{readme}");
        }
    }
}
