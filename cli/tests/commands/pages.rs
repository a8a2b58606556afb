//! Completions, the manual and the help.

use leasehold_testkit::folder;

use crate::{Ended, command};

const COMMANDS: [&str; 20] = [
    "audit",
    "history",
    "run",
    "acquire",
    "renew",
    "release",
    "status",
    "ls",
    "watch",
    "revoke",
    "session",
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
        assert!(!ended.out.contains("warden"), "parts of `run` are for nobody else");
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
        assert!(
            whole.contains(&page.replace('-', r"\-").replace(".1", "(1)")),
            "{page} in leasehold.1"
        );
    }
    assert!(out.join("leasehold-session-open.1").exists());
    assert!(!out.join("leasehold-warden.1").exists(), "parts of `run` are for nobody else");
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

#[test]
fn a_shell_completes_the_names_of_locks() {
    let world = crate::World::new();
    world.json(&["acquire", "night ly"]);
    world.json(&["acquire", "daily"]);
    let file = world.folder.path().join("leasehold.bash");
    std::fs::write(&file, leasehold(&["completions", "bash"]).out).unwrap();
    let script = format!(
        "source \"$0\"; PATH={}:$PATH; COMP_WORDS=(leasehold status nig) COMP_CWORD=2; \
         _leasehold_with_locks leasehold nig status; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        std::path::Path::new(crate::BINARY).parent().unwrap().display()
    );
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &script]).arg(&file).env("LEASEHOLD_URL", world.url());
    let ended = Ended::of(shell.output().unwrap());
    assert_eq!(ended.out, "night\\ ly\n", "{ended:?}");
    for (shell, text) in [("zsh", ":_leasehold_locks'"), ("fish", "leasehold ls --all --names")] {
        assert!(leasehold(&["completions", shell]).out.contains(text), "{shell}");
    }
}

#[test]
fn the_manual_lists_every_exit_status() {
    let page = leasehold(&["man", "run"]).out;
    let (_, statuses) = page.split_once(".SH \"EXIT STATUS\"").expect("a section");
    let documented = include_str!("../../../docs/cli.md");
    for line in statuses.lines().filter(|line| line.starts_with(r"\fB")) {
        let status = line.trim_start_matches(r"\fB").trim_end_matches(r"\fR").replace('+', " + ");
        assert!(
            documented.contains(&format!("| {status} |"))
                || documented.contains(&format!("with {status} and")),
            "{status} in docs/cli.md"
        );
    }
    assert!(statuses.contains(r"\fB75\fR"));
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
    let missing = leasehold(&["verify", &path("missing"), "--json"]);
    assert_eq!(missing.code, 1);
    assert!(missing.json()["error"].is_string());
}
