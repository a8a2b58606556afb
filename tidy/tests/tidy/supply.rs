//! The supply chain and the limits around the process: what a release is built from, and what confines it.

use crate::tree::Tree;
use crate::{check, planted};

const DOCKERFILE: &str = "packaging/Dockerfile";

/// Files, and the line that each must contain.
const REQUIRED: [(&str, &str); 14] = [
    ("Cargo.toml", "overflow-checks = true"),
    ("deny.toml", "[advisories]"),
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
    ("CONTRIBUTING.md", "   cargo deny check advisories"),
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

/// The images of a Dockerfile that come from a registry and have no digest.
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

fn missing_confinement(tree: &Tree) -> Vec<String> {
    let is_missing = |(path, line): &&(&str, &str)| {
        let text = tree.text(path).unwrap_or_default();
        !text.lines().any(|found| found.starts_with(line))
    };
    let missing = REQUIRED.iter().filter(is_missing);
    missing.map(|(path, line)| format!("{path}: has no line `{line}`")).collect()
}
