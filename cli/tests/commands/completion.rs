//! Completion scripts, run by the shells themselves.

use std::path::Path;
use std::process::Command;

use leasehold_testkit::Terminal;

use crate::{BINARY, Ended, World, command};

/// A server with locks, and the completion script for a shell.
struct Completed {
    world: World,
    shell: &'static str,
}

impl Completed {
    fn new(shell: &'static str) -> Self {
        let world = World::new();
        for lock in ["nightly", "night-watch", "daily"] {
            world.json(&["acquire", lock]);
        }
        let script = Ended::of(command(&["completions", shell]).output().unwrap());
        assert_eq!(script.code, 0, "{script:?}");
        std::fs::write(world.folder.path().join("script"), script.out).unwrap();
        Self { world, shell }
    }

    fn script(&self) -> String {
        self.world.folder.path().join("script").display().to_string()
    }

    /// Returns a PATH that contains the directory of the binary.
    fn path() -> String {
        let folder = Path::new(BINARY).parent().unwrap().display();
        format!("{folder}:{}", std::env::var("PATH").unwrap_or_default())
    }

    fn run(&self, script: &str) -> Vec<String> {
        let mut shell = Command::new(self.shell);
        let nothing = if self.shell == "fish" { "--no-config" } else { "--norc" };
        shell.arg(nothing).args(["-c", script]);
        shell.env("PATH", Self::path()).env("LEASEHOLD_URL", self.world.url());
        shell.env("HOME", self.world.folder.path());
        let ended = Ended::of(shell.output().unwrap());
        assert!(ended.err.is_empty(), "{ended:?}");
        ended.out.lines().map(str::to_owned).collect()
    }

    /// Returns what bash offers for the last word of the line.
    fn bash(&self, line: &str) -> Vec<String> {
        let words: Vec<_> = line.split(' ').collect();
        let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
        self.run(&format!(
            "source {}; COMP_WORDS=({line}{}) COMP_CWORD={}; \
             _leasehold_with_locks leasehold '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            self.script(),
            if last.is_empty() { "''" } else { "" },
            words.len() - 1,
        ))
    }

    /// Returns what fish offers for the last word of the line, without the descriptions.
    fn fish(&self, line: &str) -> Vec<String> {
        let offered = self.run(&format!("source {}; complete -C '{line}'", self.script()));
        let words = offered.iter().map(|it| it.split('\t').next().unwrap().to_owned());
        let mut words: Vec<_> = words.collect();
        words.sort();
        words
    }
}

#[test]
fn bash_completes_names_of_locks_where_one_stands_and_nothing_else_there() {
    let bash = Completed::new("bash");
    let both = ["night-watch", "nightly"];
    for line in [
        "leasehold status nig",
        "leasehold run -l nig",
        "leasehold run -l daily -l nig",
        "leasehold run --contain tree nig",
        "leasehold run -n --insecure nig",
        "leasehold renew --ttl 5s nig",
    ] {
        assert_eq!(bash.bash(line), both, "{line}");
    }
    assert_eq!(bash.bash("leasehold run --contain t"), ["tree"]);
    let offered = bash.bash("leasehold run nightly sle");
    assert!(offered.contains(&"sleep".into()) && !offered.contains(&"nightly".into()));
    let offered = bash.bash("leasehold run -l nightly -l daily sle");
    assert!(offered.contains(&"sleep".into()), "{offered:?}");
    // The words of the command are not completed as lock names: bash falls back to files.
    assert_eq!(bash.bash("leasehold run nightly ls -l nig"), [""]);
}

#[test]
fn fish_completes_names_of_locks_after_a_command_and_after_its_flag() {
    let fish = Completed::new("fish");
    let both = ["night-watch", "nightly"];
    assert_eq!(fish.fish("leasehold status nig"), both);
    assert_eq!(fish.fish("leasehold run -l nig"), both);
    assert_eq!(fish.fish("leasehold run --lock nig"), both);
    assert_eq!(fish.fish("leasehold run --ttl 5s -n nig"), both);
    assert_eq!(fish.fish("leasehold run --contain t"), ["tree"]);
    for line in
        ["leasehold run daily nig", "leasehold run -l daily nig", "leasehold status daily nig"]
    {
        assert!(fish.fish(line).is_empty(), "{line}: {:?}", fish.fish(line));
    }
}

#[test]
fn zsh_completes_names_of_locks_after_a_command_and_after_its_flag() {
    let zsh = Completed::new("zsh");
    let (path, url) = (Completed::path(), zsh.world.url());
    let folder = zsh.world.folder.path();
    let home = folder.display().to_string();
    let variables = [("PATH", path.as_str()), ("LEASEHOLD_URL", &url), ("HOME", &home)];
    let screen = Terminal::open(folder, 100, &variables);
    screen.enter("PS1='zsh is here ' exec zsh -f");
    screen.until("zsh", |shown| shown.trim_end().ends_with("\nzsh is here"));
    screen.enter(&format!(
        "PROMPT='z%% '; autoload -Uz compinit; compinit -u -D; source {}; clear",
        zsh.script()
    ));
    screen.until("zsh", |shown| shown.starts_with("z%"));
    for (typed, completed) in [
        ("status da", "status daily"),
        ("run -l da", "run -l daily"),
        ("run --lock da", "run --lock daily"),
        ("run --contain t", "run --contain tree"),
        ("run daily slee", "run daily sleep"),
    ] {
        screen.keys(&["-l", &format!("leasehold {typed}")]);
        screen.keys(&["Tab"]);
        screen.shows(&format!("leasehold {completed}"));
        screen.keys(&["C-u"]);
        screen.until("a clear line", |shown| shown.trim_end().ends_with("z%"));
    }
}

#[test]
fn no_shell_is_told_of_what_is_hidden() {
    for shell in ["bash", "fish", "zsh", "elvish", "powershell"] {
        let script = Ended::of(command(&["completions", shell]).output().unwrap()).out;
        // The script itself uses hidden flags to list lock names.
        let script = script.replace("ls --all --names", "");
        for flag in ["all-words", "names", "close"] {
            for text in [format!("--{flag} "), format!("--{flag}["), format!("-l {flag} ")] {
                assert!(!script.contains(&text), "{text} in {shell}");
            }
        }
        for part_of_run in ["warden", "launch"] {
            assert!(!script.contains(part_of_run), "{part_of_run} in {shell}");
        }
    }
}
