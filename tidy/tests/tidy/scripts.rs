//! Scripts: they are executable, and they stop at the first error.

use crate::tree::{File, Tree};
use crate::{check, planted};

#[test]
fn every_script_is_executable_and_stops_at_the_first_error() {
    check(careless_scripts);
}

fn careless_scripts(tree: &Tree) -> Vec<String> {
    tree.files()
        .filter(|file| is_script(file))
        .filter(|file| !file.path.ends_with(".md"))
        .flat_map(|file| {
            complaints(file).into_iter().map(move |what| format!("{}: {what}", file.path))
        })
        .collect()
}

fn is_script(file: &File) -> bool {
    let is_in_bash =
        file.text.as_deref().is_some_and(|text| text.starts_with("#!/usr/bin/env bash"));
    is_in_bash || file.path.starts_with("scripts/") || file.path.starts_with(".ci/")
}

fn complaints(file: &File) -> Vec<&'static str> {
    let text = file.text.as_deref().unwrap_or("");
    let shebang = text.lines().next().filter(|line| line.starts_with("#!"));
    let mut code = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let in_bash = shebang.is_some_and(|line| line.ends_with("bash"));
    let mut found = Vec::new();
    if !file.executable {
        found.push("not executable");
    }
    if shebang.is_none() {
        found.push("no shebang");
    }
    if in_bash && code.next() != Some("set -euo pipefail") {
        found.push("its first command is not `set -euo pipefail`");
    }
    // `grep -q` ends at the first match, so the command before it sometimes fails with SIGPIPE.
    if in_bash && text.contains("| grep -q") {
        found.push("grep -q after a pipe: write its output to /dev/null instead");
    }
    found
}

#[test]
fn a_careless_script_is_found() {
    let bash = "#!/usr/bin/env bash\n# Why.\n\nset -euo pipefail\n";
    let late = "#!/bin/bash\ncd /\nset -euo pipefail\n";
    let piped = "#!/usr/bin/env bash\nset -euo pipefail\nls | grep -q x\n";
    let files = [
        ("scripts/bash", bash),
        ("scripts/late", late),
        (".ci/run", "make\n"),
        ("scripts/README.md", ""),
        ("testkit/piped", piped),
    ];
    let careless = [
        "scripts/bash: not executable",
        "scripts/late: not executable",
        "scripts/late: its first command is not `set -euo pipefail`",
        ".ci/run: not executable",
        ".ci/run: no shebang",
        "testkit/piped: not executable",
        "testkit/piped: grep -q after a pipe: write its output to /dev/null instead",
    ];
    assert_eq!(planted(careless_scripts, &files), careless);
}
