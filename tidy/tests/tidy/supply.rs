//! The supply chain and the confinement of the process: the inputs of a release, and the limits of the service.

use crate::tree::Tree;
use crate::{check, planted};

const DOCKERFILE: &str = "packaging/Dockerfile";

/// Files, and a line that each must contain.
const REQUIRED: [(&str, &str); 14] = [
    ("packaging/deb/leasehold.service", "MemoryMax="),
    ("packaging/deb/leasehold.service", "TasksMax="),
    ("packaging/kubernetes/leasehold.yaml", "kind: NetworkPolicy"),
    ("packaging/kubernetes/cluster/leasehold.yaml", "kind: NetworkPolicy"),
    ("packaging/kubernetes/cluster/etcd.yaml", "kind: NetworkPolicy"),
    ("packaging/kubernetes/leasehold.yaml", "            - --listen=https://"),
    ("packaging/kubernetes/leasehold.yaml", "            - --tls-cert-file="),
    ("packaging/kubernetes/cluster/leasehold.yaml", "            - --listen=https://"),
    ("packaging/kubernetes/cluster/leasehold.yaml", "            - --tls-cert-file="),
    ("packaging/kubernetes/cluster/leasehold.yaml", "            - --etcd-ca-file="),
    ("packaging/kubernetes/cluster/etcd.yaml", "            - --client-cert-auth"),
    ("packaging/kubernetes/cluster/etcd.yaml", "          image: quay.io/coreos/etcd:v"),
    ("CONTRIBUTING.md", "   cargo deny check advisories"),
    ("CONTRIBUTING.md", "   cargo deny --manifest-path fuzz/Cargo.toml check "),
];

/// Configuration files, and a line that each must contain in the given section.
const REQUIRED_IN: [(&str, &str, &str); 5] = [
    ("Cargo.toml", "[profile.release]", "overflow-checks = true"),
    ("deny.toml", "[advisories]", "yanked = \"deny\""),
    ("deny.toml", "[advisories]", "unmaintained = \"all\""),
    ("deny.toml", "[advisories]", "unsound = \"all\""),
    ("deny.toml", "[advisories]", "ignore = []"),
];

#[test]
fn base_images_are_pinned_by_digest() {
    check(unpinned_images);
}

#[test]
fn a_base_image_without_a_digest_is_found() {
    let digest = "0".repeat(64);
    let pinned = format!("FROM rust:1@sha256:{digest} AS build\nFROM build\n");
    assert_eq!(planted(unpinned_images, &[(DOCKERFILE, &pinned)]), [""; 0]);
    let loose = pinned.replace("@sha256:", "-");
    assert_eq!(planted(unpinned_images, &[(DOCKERFILE, &loose)]).len(), 1);
    let short = pinned.replace("00 AS", "0 AS");
    assert_eq!(planted(unpinned_images, &[(DOCKERFILE, &short)]).len(), 1);
}

/// Returns the images of a Dockerfile that come from a registry and have no digest.
fn unpinned_images(tree: &Tree) -> Vec<String> {
    let text = tree.text(DOCKERFILE).unwrap_or_default();
    let mut stages = Vec::new();
    let mut found = Vec::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("FROM ")) {
        let mut words = line.split_whitespace();
        let image = words.next().unwrap_or_default();
        let is_pinned = image.split_once("@sha256:").is_some_and(|(_, digest)| digest.len() == 64);
        if !is_pinned && !stages.contains(&image) {
            found.push(format!("{DOCKERFILE}: `{image}` has no digest"));
        }
        stages.extend(words.nth(1));
    }
    found
}

#[test]
fn releases_check_overflows_and_services_are_confined() {
    check(missing_confinement);
}

#[test]
fn a_missing_limit_is_found() {
    let files: Vec<_> = REQUIRED.iter().map(|(path, _)| (*path, "")).collect();
    assert_eq!(planted(missing_confinement, &files).len(), REQUIRED.len());
}

#[test]
fn settings_of_a_release_count_only_in_their_section() {
    fn found(cargo: &str, deny: &str) -> Vec<String> {
        planted(missing_settings, &[("Cargo.toml", cargo), ("deny.toml", deny)])
    }
    check(missing_settings);
    let release = "[profile.release]\nlto = true\noverflow-checks = true # why\n";
    let elsewhere = "[profile.release]\nlto = true\n[profile.dev]\noverflow-checks = true\n";
    let commented = "[profile.release]\n# overflow-checks = true\n";
    let advisories =
        "[advisories]\nyanked = \"deny\"\nunmaintained = \"all\"\nunsound = \"all\"\nignore = []\n";
    assert_eq!(found(release, advisories), [""; 0]);
    assert_eq!(found(elsewhere, advisories).len(), 1);
    assert_eq!(found(commented, advisories).len(), 1);
    assert_eq!(found(release, &advisories.replace("\"all\"", "\"none\"")).len(), 2);
    assert_eq!(found(release, &advisories.replace("[]", "[\"RUSTSEC-2020-0001\"]")).len(), 1);
    assert_eq!(found(release, &advisories.replace("[advisories]", "[bans]")).len(), 4);
    // Packages are built with another profile, which inherits from this one.
    let unchecked = format!("{release}[profile.dist]\noverflow-checks = false\n");
    assert_eq!(found(&unchecked, advisories).len(), 1);
}

fn missing_settings(tree: &Tree) -> Vec<String> {
    let is_missing = |(path, section, line): &&(&str, &str, &str)| {
        let text = tree.text(path).unwrap_or_default();
        let lines = text.lines().skip_while(|found| found != section).skip(1);
        let mut lines = lines.take_while(|found| !found.starts_with('['));
        !lines.any(|found| found.split('#').next().unwrap_or_default().trim() == *line)
    };
    let missing = REQUIRED_IN.iter().filter(is_missing);
    let told = |(path, section, line): &(&str, &str, &str)| {
        format!("{path}: {section} has no line `{line}`")
    };
    let lines = tree.text("Cargo.toml").unwrap_or_default().lines();
    let unchecked = lines.filter(|line| line.replace(' ', "").starts_with("overflow-checks=false"));
    let unchecked = unchecked.map(|line| format!("Cargo.toml: a profile has `{line}`"));
    missing.map(told).chain(unchecked).collect()
}

fn missing_confinement(tree: &Tree) -> Vec<String> {
    let is_missing = |(path, line): &&(&str, &str)| {
        let text = tree.text(path).unwrap_or_default();
        !text.lines().any(|found| found.starts_with(line))
    };
    let missing = REQUIRED.iter().filter(is_missing);
    missing.map(|(path, line)| format!("{path}: has no line `{line}`")).collect()
}
