//! Manifests: the core has no dependencies that would let it do I/O, and `cargo run` has only one binary to run.

use crate::tree::Tree;
use crate::{check, planted};

const CORE_DEPENDENCIES: [&str; 2] = ["hashbrown", "siphasher"];

#[test]
fn the_core_depends_on_nothing_that_can_do_io() {
    check(core_dependencies);
}

fn core_dependencies(tree: &Tree) -> Vec<String> {
    let Some(manifest) = tree.text("core/Cargo.toml") else {
        return vec!["core/Cargo.toml: missing".into()];
    };
    let found = dependencies(manifest);
    let extra = found.iter().filter(|name| !CORE_DEPENDENCIES.contains(name));
    let missing = CORE_DEPENDENCIES.iter().filter(|name| !found.contains(name));
    let extra = extra.map(|name| format!("core/Cargo.toml: `{name}` is not allowed"));
    extra.chain(missing.map(|name| format!("core/Cargo.toml: `{name}` is missing"))).collect()
}

/// Returns the names in all dependency sections, for every target, except development dependencies. Build dependencies
/// count, because a build script runs without restrictions.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut within = false;
    for line in manifest.lines().filter(|line| !line.starts_with('#')) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            let of_tests = section.contains("dev-dependencies");
            within = section.ends_with("dependencies") && !of_tests;
            let single = section.split_once("dependencies.").filter(|_| !of_tests);
            found.extend(single.map(|(_, name)| name));
        } else if within {
            found.extend(
                line.split_once('=').map(|(name, _)| name.split('.').next().unwrap_or(name).trim()),
            );
        }
    }
    found
}

#[test]
fn a_dependency_of_the_core_is_found_in_whatever_section() {
    let good = "[dependencies]\nhashbrown = \"0\"\nsiphasher.workspace = true\n[dev-dependencies]\nproptest = \"1\"\n";
    let check = |manifest: &str| planted(core_dependencies, &[("core/Cargo.toml", manifest)]);
    assert_eq!(check(good), [""; 0]);
    let not_allowed = ["core/Cargo.toml: `tokio` is not allowed"];
    for section in
        ["dependencies.tokio", "build-dependencies.tokio", "target.'cfg(unix)'.dependencies.tokio"]
    {
        assert_eq!(
            check(&format!("{good}[{section}]\nversion = \"1\"\n")),
            not_allowed,
            "{section}"
        );
    }
    for section in ["build-dependencies", "target.'cfg(unix)'.dependencies"] {
        assert_eq!(check(&format!("{good}[{section}]\ntokio = \"1\"\n")), not_allowed, "{section}");
    }
    assert_eq!(check(&good.replace("siphasher", "tokio")).len(), 2);
    assert_eq!(planted(core_dependencies, &[]), ["core/Cargo.toml: missing"]);
}

#[test]
fn cargo_run_knows_which_binary_is_meant() {
    check(one_binary);
}

#[test]
fn a_second_binary_among_the_default_members_is_found() {
    let manifest = ("Cargo.toml", "default-members = [\"cli\", \"sim\"]\n");
    let cli = ("cli/src/main.rs", "");
    assert_eq!(planted(one_binary, &[manifest, cli]), Vec::<String>::new());
    let found = planted(one_binary, &[manifest, cli, ("sim/src/main.rs", "")]);
    assert_eq!(found, ["cli/src/main.rs", "sim/src/main.rs"]);
    let found = planted(one_binary, &[manifest, cli, ("sim/src/bin/x.rs", "")]);
    assert_eq!(found, ["cli/src/main.rs", "sim/src/bin/x.rs"]);
}

/// Returns the binaries of the default members, unless there is exactly one. With several, `cargo run -- serve` would
/// be ambiguous.
fn one_binary(tree: &Tree) -> Vec<String> {
    let manifest = tree.text("Cargo.toml").unwrap_or_default();
    let members = manifest.lines().find_map(|line| line.strip_prefix("default-members = "));
    let members: Vec<_> = members.unwrap_or_default().split('"').skip(1).step_by(2).collect();
    let is_binary = |path: &&str| {
        let Some((member, rest)) = path.split_once('/') else { return false };
        members.contains(&member) && (rest == "src/main.rs" || rest.starts_with("src/bin/"))
    };
    let binaries: Vec<_> = tree.rust().map(|(path, _)| path).filter(is_binary).collect();
    if binaries.len() == 1 { Vec::new() } else { binaries.into_iter().map(Into::into).collect() }
}
