//! Completions, the manual and the help.

use leasehold_testkit::folder;

use crate::{Ended, command};

const COMMANDS: [&str; 30] = [
    "audit",
    "auth",
    "cluster",
    "doctor",
    "history",
    "init",
    "key",
    "migrate",
    "recover",
    "reopen",
    "run",
    "upgrade",
    "acquire",
    "renew",
    "release",
    "status",
    "ls",
    "watch",
    "revoke",
    "session",
    "state",
    "load",
    "serve",
    "check-config",
    "backup",
    "restore",
    "verify",
    "completions",
    "man",
    "help",
];

fn leasehold(arguments: &[&str]) -> Ended {
    Ended::of(command(arguments).env("LEASEHOLD_LEASE_ID", "secret-7").output().unwrap())
}

#[test]
fn completions_know_every_command_in_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let ended = leasehold(&["completions", shell]);
        assert_eq!(ended.code, 0);
        for command in COMMANDS {
            assert!(ended.out.contains(command), "{command} in {shell}");
        }
        assert!(!ended.out.contains("warden"), "internal parts of `run` have no page");
        for flag in ["failrate", "lease-id", "metadata"] {
            assert!(ended.out.contains(flag), "{flag} in {shell}");
        }
    }
    assert_eq!(leasehold(&["completions", "cmd.exe"]).code, 64);
}

#[test]
fn a_shell_takes_the_completions() {
    let folder = folder();
    let file = folder.path().join("leasehold.bash");
    std::fs::write(&file, leasehold(&["completions", "bash"]).out).unwrap();
    let script = "source \"$0\" && COMP_WORDS=(leasehold rele) COMP_CWORD=1 && _leasehold leasehold rele \
                  leasehold && echo \"${COMPREPLY[@]}\"";
    let mut shell = std::process::Command::new("bash");
    let ended = Ended::of(shell.args(["-c", script]).arg(&file).output().unwrap());
    assert_eq!(ended.out, "release\n", "{ended:?}");
}

#[test]
fn the_manual_has_a_page_for_every_command_and_for_all() {
    let folder = folder();
    let out = folder.path().join("man1");
    assert_eq!(leasehold(&["man", "--out", out.to_str().unwrap()]).code, 0);
    let whole = std::fs::read_to_string(out.join("leasehold.1")).unwrap();
    for command in COMMANDS.into_iter().filter(|command| *command != "help") {
        let page = format!("leasehold-{command}.1");
        let text = std::fs::read_to_string(out.join(&page)).expect(&page);
        assert!(text.contains(".SH SYNOPSIS"), "{page}");
        assert!(text.contains(".SH EXAMPLES\n.nf\n  "), "{page}: {text}");
        assert!(!text.contains(".SH EXTRA"), "{page}");
        assert!(
            whole.contains(&page.replace('-', r"\-").replace(".1", "(1)")),
            "{page} in leasehold.1"
        );
    }
    assert!(out.join("leasehold-session-open.1").exists());
    assert!(!out.join("leasehold-warden.1").exists(), "internal parts of `run` have no page");
    let printed = leasehold(&["man", "session", "open"]).out;
    assert!(printed.contains("leasehold\\-session\\-open"), "{printed}");
    assert_eq!(leasehold(&["man", "nonsense"]).code, 64);
}

#[test]
fn every_command_shows_examples_and_no_secret() {
    for command in COMMANDS.into_iter().filter(|command| *command != "help") {
        let help = leasehold(&[command, "--help"]).out;
        let (_, examples) = help.split_once("\nExample").expect(command);
        assert!(examples.contains(&format!("leasehold {command}")), "{command}");
        assert!(!help.contains("secret-7"), "{command}");
        assert!(!leasehold(&["man", command]).out.contains("secret-7"), "{command}");
    }
    assert!(leasehold(&["man", "renew"]).out.contains("LEASEHOLD_LEASE_ID"));
}

/// Returns the exit statuses that a page of the manual lists.
fn statuses(page: &[&str]) -> Vec<String> {
    let page = leasehold(&[&["man"], page].concat()).out;
    let (_, section) = page.split_once(".SH \"EXIT STATUS\"").expect("a section");
    let section = section.split("\n.SH ").next().unwrap();
    let lines = section.lines().filter_map(|line| line.strip_prefix(r"\fB"));
    lines.map(|line| line.trim_end_matches(r"\fR").to_owned()).collect()
}

#[test]
fn each_page_lists_its_exit_statuses_and_the_whole_all_there_are() {
    let documented = include_str!("../../../docs/reference/errors.md");
    let all = statuses(&[]);
    for status in &all {
        let status = status.replace('+', " + ");
        let row = format!("| {status} |");
        assert!(documented.contains(&row), "{status} in docs/reference/errors.md");
    }
    let (_, table) = documented.split_once("## Exit status").unwrap();
    let table = table.split("\n\n").nth(1).unwrap();
    let rows = table.lines().skip(2).map(|row| row.split('|').nth(1).unwrap().replace(' ', ""));
    assert_eq!(rows.collect::<Vec<_>>(), all);
    assert_eq!(statuses(&["revoke"]), ["0", "1", "64", "68", "71", "76", "77", "141"]);
    assert_eq!(statuses(&["session", "open"]), statuses(&["session"]));
    assert!(statuses(&["run"]).contains(&"124".into()));
    assert_eq!(statuses(&["verify"]), ["0", "1", "64", "71", "141"]);
}

/// Returns the words of every command, such as `session open`.
fn all_commands(above: &[&str]) -> Vec<Vec<String>> {
    let help = leasehold(&[above, &["--help"]].concat()).out;
    let Some((_, listed)) = help.split_once("\nCommands:\n") else {
        return vec![above.iter().map(ToString::to_string).collect()];
    };
    let names = listed.lines().take_while(|line| !line.is_empty());
    let names = names.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let below = names.filter(|name| *name != "help");
    below.flat_map(|name| all_commands(&[above, &[name]].concat())).collect()
}

#[test]
fn every_command_that_answers_answers_in_json() {
    let all = all_commands(&[]);
    assert!(all.len() > 24, "{all:?}");
    // These commands run until they are stopped, or print text for another program.
    let others = ["serve", "completions", "man"];
    for words in all.iter().filter(|words| !others.contains(&words[0].as_str())) {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let help = leasehold(&[&words[..], &["--help"]].concat()).out;
        assert!(help.contains("--json"), "{words:?}");
    }
}

#[test]
fn keys_are_told_in_json_too() {
    let folder = folder();
    let file = folder.path().join("auth.toml").display().to_string();
    let key = |words: &[&str]| leasehold(&[words, &["--auth-file", &file, "--json"]].concat());
    let made = key(&["auth", "init"]).json();
    assert_eq!(
        (&made["principal"], &made["auth_file"]),
        (&"key:admin".into(), &file.clone().into())
    );
    let refused = key(&["auth", "init"]);
    assert!(refused.json()["error"].as_str().unwrap().contains("exists already"), "{refused:?}");
    let created = key(&["key", "create", "--name", "ci", "--expires", "90d"]).json();
    assert_eq!(created["principal"], "key:ci");
    let secret = created["key"].as_str().unwrap();
    assert!(secret.starts_with("lh_") && created["expires"].is_string(), "{created}");
    let listed = key(&["key", "list"]);
    let lines: Vec<leasehold_testkit::Value> =
        listed.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["name"], &lines[1]["name"]), (&"admin".into(), &"ci".into()));
    assert_eq!((&lines[0]["expires"], &lines[1]["id"]), (&().into(), &created["id"]));
    let printed =
        key(&["key", "create", "--name", "x", "--may", "read", "--namespaces", "*", "--print"]);
    let printed = printed.json();
    assert!(printed["key_entry"].as_str().unwrap().starts_with("[[key]]"), "{printed}");
    assert!(printed["rule_entry"].as_str().unwrap().contains("key:x"), "{printed}");
    let revoked = key(&["key", "revoke", "--name", "ci"]).json();
    assert_eq!(
        (&revoked["revoked_ids"][0], &revoked["refused_by_server"]),
        (&created["id"], &false.into())
    );
    let none = key(&["key", "revoke", "--name", "ci"]);
    assert_eq!(none.code, 1);
    assert!(none.json()["error"].as_str().unwrap().contains("no such key"), "{none:?}");
}

#[test]
fn settings_and_folders_are_told_in_json_too() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let checked = leasehold(&["check-config", "--ttl-max", "2h", "--json"]).json();
    assert_eq!((&checked["valid"], &checked["settings"]["ttl-max"]), (&true.into(), &"2h".into()));
    assert_eq!(checked["settings"]["locks-namespace"], "default");
    let wrong = leasehold(&["check-config", "--grace", "2h", "--grace-max", "1h", "--json"]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.json()["error"].as_str().unwrap().contains("--grace-max"), "{wrong:?}");

    let data = path("data");
    drop(leasehold_testkit::Process::start(crate::BINARY, data.as_ref(), &[]));
    let sound = leasehold(&["verify", &data, "--json"]);
    assert_eq!(sound.json()["sound"], true, "{sound:?}");
    let copied = leasehold(&["backup", &path("copy"), "--data", &data, "--json"]);
    assert_eq!(copied.json()["backup"], path("copy"), "{copied:?}");
    let restored = leasehold(&["restore", &path("copy"), "--data", &path("new"), "--json"]);
    assert_eq!(restored.json()["data"], path("new"), "{restored:?}");
    for words in [&["verify"][..], &["recover"], &["recover", "--accept-loss"]] {
        let missing = leasehold(&[words, &[&path("missing"), "--json"]].concat());
        assert_eq!(missing.code, 1);
        assert!(missing.json()["error"].is_string(), "{missing:?}");
    }
    let doctor = ["doctor", "--data", &data, "--listen=127.0.0.1:0", "--json"];
    let looked = leasehold(&doctor);
    let found = looked.json();
    // The machine might be slow or small, so any findings are allowed, but the numbers must agree.
    let n_problems = found["problems"].as_u64().unwrap();
    assert_eq!(looked.code, i32::from(n_problems > 0), "{looked:?}");
    assert_eq!(found["healthy"], n_problems == 0, "{looked:?}");
    let checks =
        found["findings"].as_array().unwrap().iter().map(|found| found["check"].as_str().unwrap());
    let checks: std::collections::BTreeSet<_> = checks.collect();
    for check in ["settings", "data", "disk", "clock", "files", "memory", "listen", "backup"] {
        assert!(checks.contains(check), "{check}: {looked:?}");
    }
    let strict = leasehold(&[&doctor[..], &["--strict"]].concat());
    assert_eq!(
        (strict.code, &strict.json()["healthy"]),
        (1, &false.into()),
        "no backups: {strict:?}"
    );
    let wrong = leasehold(&[&doctor[..], &["--grace=2h", "--store=etcd://127.0.0.1:1/x"]].concat());
    assert_eq!(wrong.code, 1);
    let problem = |check: &str| {
        let all = wrong.json()["findings"].as_array().unwrap().clone();
        all.into_iter().find(|found| found["check"] == check && found["verdict"] == "problem")
    };
    assert!(
        problem("settings").unwrap()["found"].as_str().unwrap().contains("--grace-max"),
        "{wrong:?}"
    );
    assert!(problem("etcd").unwrap()["advice"].is_string(), "{wrong:?}");
    let text = leasehold(&["doctor", "--data", &data, "--listen=127.0.0.1:0"]).out;
    assert!(text.contains("\nwarning  backup ") && text.contains(" problem"), "{text}");

    let missing = leasehold(&["audit", "--audit-file", &path("missing"), "--json"]);
    assert!(missing.code == 1 && missing.json()["error"].is_string(), "{missing:?}");
}
