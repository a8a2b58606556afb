//! Documents: their links have valid targets, and the decision records are numbered and listed.

use std::collections::BTreeSet;

use crate::tree::Tree;
use crate::{check, planted};

const ROOT_DOCUMENTS: [&str; 4] =
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

#[test]
fn every_relative_link_leads_to_a_file() {
    check(broken_links);
}

#[test]
fn every_anchor_is_a_heading() {
    check(broken_anchors);
}

#[test]
fn decisions_are_numbered_from_one_without_gaps() {
    check(misnumbered_decisions);
}

#[test]
fn every_decision_is_linked_from_the_list() {
    check(unlisted_decisions);
}

fn broken_links(tree: &Tree) -> Vec<String> {
    let mut offenders = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| is_document(path)) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (n, target) in links(text) {
            let leads = resolve(folder, target).is_some_and(|file| tree.has(&file));
            if !leads {
                offenders.push(format!("{path}:{n}: {target}"));
            }
        }
    }
    offenders
}

/// Returns the links to a part of a page that has no heading of that name.
fn broken_anchors(tree: &Tree) -> Vec<String> {
    let mut offenders = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| is_document(path)) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (n, target) in all_links(text) {
            let Some((page, anchor)) = target.split_once('#').filter(|_| !target.contains("://"))
            else {
                continue;
            };
            let page = if page.is_empty() { Some(path.to_owned()) } else { resolve(folder, page) };
            // A missing page is reported by another rule.
            let Some(there) =
                page.filter(|page| page.ends_with(".md")).and_then(|page| tree.text(&page))
            else {
                continue;
            };
            if !anchors(there).contains(anchor) {
                offenders.push(format!("{path}:{n}: {target}"));
            }
        }
    }
    offenders
}

/// Returns the names of a page's headings in links, in the way of GitHub: lower case, hyphens for spaces, and a number
/// after a repeated name.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let Some(heading) = line
            .trim_start_matches('#')
            .strip_prefix(' ')
            .filter(|_| line.starts_with('#') && !fenced)
        else {
            continue;
        };
        let shown = shown(heading);
        let kept =
            shown.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let name: String =
            kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|n| format!("{name}-{n}"));
        let free = std::iter::once(name.clone()).chain(again).find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

/// Returns a heading without the targets of its links.
fn shown(heading: &str) -> String {
    let mut shown = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        shown.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    shown + rest
}

fn is_document(path: &str) -> bool {
    ROOT_DOCUMENTS.contains(&path) || path.starts_with("docs/") && path.ends_with(".md")
}

/// Returns the relative links with their line numbers: `[text](target)` and `[label]: target`, outside code.
fn links(text: &str) -> Vec<(usize, &str)> {
    all_links(text).into_iter().filter(|(_, target)| is_relative(target)).collect()
}

/// Returns all links, including those within the page and those that leave the tree.
fn all_links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (n, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            found.extend(targets(line).map(|target| (n + 1, target)));
        }
    }
    found
}

/// Returns the targets of the links in a line. Every second part between backticks is code, which contains no links.
/// The text of a link can be code.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.split('`').step_by(2).flat_map(|prose| {
        prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
    });
    let label =
        line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
    inline.chain(label).filter_map(|target| target.split_whitespace().next())
}

fn is_relative(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:") && !target.starts_with('#')
}

/// Returns the path from the root that a link in this folder refers to, or `None` if it leaves the tree.
fn resolve(folder: &str, target: &str) -> Option<String> {
    let target = target.split('#').next().unwrap_or(target);
    let from = if target.starts_with('/') { "" } else { folder };
    let mut path = Vec::new();
    for step in from.split('/').chain(target.split('/')) {
        match step {
            "" | "." => {}
            ".." => drop(path.pop()?),
            name => path.push(name),
        }
    }
    Some(path.join("/"))
}

fn misnumbered_decisions(tree: &Tree) -> Vec<String> {
    decisions(tree)
        .enumerate()
        .map(|(n, name)| (format!("{:04}-", n + 1), name))
        .filter(|(number, name)| !name.starts_with(number))
        .map(|(number, name)| format!("docs/adr/{name}: should begin with {number}"))
        .collect()
}

fn unlisted_decisions(tree: &Tree) -> Vec<String> {
    let listed = links(tree.text("docs/adr/README.md").unwrap_or(""));
    let is_listed = |name: &str| {
        listed
            .iter()
            .any(|(_, target)| resolve("docs/adr", target) == Some(format!("docs/adr/{name}")))
    };
    decisions(tree).filter(|name| !is_listed(name)).map(|name| format!("docs/adr/{name}")).collect()
}

/// Returns the file names of the decision records, in order.
fn decisions(tree: &Tree) -> impl Iterator<Item = &str> {
    tree.files()
        .filter_map(|file| file.path.strip_prefix("docs/adr/"))
        .filter(|name| name.ends_with(".md") && *name != "README.md")
}

#[test]
fn a_broken_link_is_found() {
    let readme = "\
[good](docs/a.md#part) and [a folder](docs/) and [out](https://example.org/x) and [here](#part)
[`code`](docs/missing.md) but `[shown](docs/b.md)`
```
[shown](docs/c.md)
```
[label]: docs/gone.md
";
    let page =
        "[up](../README.md \"titled\") [root](/docs/a.md) [no](README.md) [outside](../../x.md)\n";
    let files = [("README.md", readme), ("docs/a.md", page), ("core/notes.md", "[no](x.md)\n")];
    let broken = [
        "README.md:2: docs/missing.md",
        "README.md:6: docs/gone.md",
        "docs/a.md:1: README.md",
        "docs/a.md:1: ../../x.md",
    ];
    assert_eq!(planted(broken_links, &files), broken);
}

#[test]
fn a_misnumbered_or_unlisted_decision_is_found() {
    let list = "[1](0001-a.md) [3](./0003-c.md)\n";
    let files = [
        ("docs/adr/0001-a.md", ""),
        ("docs/adr/0003-c.md", ""),
        ("docs/adr/0003-d.md", ""),
        ("docs/adr/README.md", list),
    ];
    let gap = ["docs/adr/0003-c.md: should begin with 0002-"];
    assert_eq!(planted(misnumbered_decisions, &files), gap);
    assert_eq!(planted(unlisted_decisions, &files), ["docs/adr/0003-d.md"]);
    let twice = ["docs/adr/0001-b.md: should begin with 0002-"];
    let files = [("docs/adr/0001-a.md", ""), ("docs/adr/0001-b.md", "")];
    assert_eq!(planted(misnumbered_decisions, &files), twice);
}

#[test]
fn an_anchor_without_a_heading_is_found() {
    let readme = "\
# A page, `twice`
## What is [linked](docs/a.md)?
## Again
## Again
```
# no heading
```
[one](#a-page-twice) [two](#what-is-linked) [three](#again-1) [no](#no-heading) [four](#again-2)
[there](docs/a.md#part) [not there](docs/a.md#parts) [elsewhere](https://example.org/#x) [code](core/a.rs#L7)
";
    let files = [("README.md", readme), ("docs/a.md", "## Part\n"), ("core/a.rs", "")];
    let broken =
        ["README.md:8: #no-heading", "README.md:8: #again-2", "README.md:9: docs/a.md#parts"];
    assert_eq!(planted(broken_anchors, &files), broken);
}
