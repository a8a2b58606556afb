//! Tests that the command line accepts the commands and settings in the blocks of the book and of the README.
//!
//! `scripts/tour` runs the `sh` blocks. The commands in other blocks need a service manager, a cluster or another
//! program, so these tests only parse them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::{Cli, run};

/// Kinds of blocks that can contain commands.
const COMMANDS: [&str; 7] = ["console", "bash", "sh", "crontab", "ini", "yaml", "dockerfile"];

/// Tables that only an auth file has.
const AUTH: [&str; 7] =
    ["version =", "[[rule]]", "[[key]]", "[[oidc]]", "[proxy]", "[mtls]", "[[quota]]"];

struct Block {
    page: PathBuf,
    kind: String,
    text: String,
}

/// Returns the fenced blocks of all pages.
fn blocks() -> Vec<Block> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut pages = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the book").flatten() {
            let path = entry.path();
            match path.extension() {
                Some(extension) if extension == "md" => pages.push(path),
                None if path.is_dir() => folders.push(path),
                _ => {}
            }
        }
    }
    let mut blocks = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(kind) = line.trim_start().strip_prefix("```") {
                let within: Vec<_> = lines
                    .by_ref()
                    .take_while(|line| !line.trim_start().starts_with("```"))
                    .collect();
                blocks.push(Block {
                    page: page.clone(),
                    kind: kind.into(),
                    text: within.join("\n"),
                });
            }
        }
    }
    blocks
}

/// Returns the commands of a block that start `leasehold`, as words.
fn commands(block: &str) -> Vec<Vec<String>> {
    let whole = block.replace("\\\n", " ");
    whole.lines().flat_map(|line| simple_commands(line.trim_start_matches("$ "))).collect()
}

/// Splits a line at `;`, `&`, `|`, parentheses and redirections, and each part into words. Returns the words from
/// `leasehold` on.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut parts = vec![vec![]];
    let (mut word, mut quote, mut is_word) = (String::new(), None, false);
    let mut chars = line.chars().chain([' ']);
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None | Some('"'), '\\') => {
                word.extend(chars.next());
                is_word = true;
            }
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => (quote, is_word) = (Some(c), true),
            (None, '#') if !is_word => break,
            (None, ' ' | ';' | '&' | '|' | '(' | ')' | '<' | '>') => {
                // The number before a redirection is not a word of the command.
                let is_descriptor =
                    matches!(c, '<' | '>') && word.bytes().all(|c| c.is_ascii_digit());
                if is_descriptor {
                    word.clear();
                } else if is_word {
                    parts.last_mut().expect("a part").push(std::mem::take(&mut word));
                }
                is_word = false;
                if c != ' ' {
                    parts.push(vec![]);
                }
            }
            (_, c) => {
                word.push(c);
                is_word = true;
            }
        }
    }
    let is_program = |word: &String| {
        let program = word.rsplit_once('=').map_or(word.as_str(), |(_, value)| value);
        program == "leasehold" || program.ends_with("/leasehold")
    };
    // The user that runs the server is called leasehold, too.
    let is_command =
        |pair: &[String]| is_program(&pair[0]) && pair[1].starts_with(char::is_alphabetic);
    let from_program = |words: Vec<String>| {
        let at = words.windows(2).position(is_command)?;
        Some(words[at..].to_vec())
    };
    parts.into_iter().filter_map(from_program).collect()
}

#[test]
fn the_command_line_accepts_every_command_of_the_book() {
    let mut n_commands = 0;
    let mut wrong = Vec::new();
    for block in blocks().iter().filter(|block| COMMANDS.contains(&block.kind.as_str())) {
        for words in commands(&block.text) {
            // A line of output, or the argument of another program, can contain the same word.
            let is_command =
                Cli::command().get_subcommands().any(|known| known.get_name() == words[1]);
            if !is_command {
                continue;
            }
            n_commands += 1;
            let given: Vec<_> = words.iter().map(OsString::from).collect();
            let Err(error) = Cli::try_parse_from(run::separated(given)) else { continue };
            // Required values can come from variables, which these tests do not set.
            if error.kind() != ErrorKind::MissingRequiredArgument && error.use_stderr() {
                wrong.push(format!("{}: {words:?}: {error}", block.page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n_commands > 200, "only {n_commands} commands found");
}

#[test]
fn every_setting_in_the_files_of_the_book_exists() {
    let cli = Cli::command();
    let serve = cli.find_subcommand("serve").expect("the command serve");
    let mut n_settings = 0;
    for block in blocks().iter().filter(|block| block.kind == "toml") {
        if AUTH.iter().any(|mark| block.text.contains(mark)) {
            continue;
        }
        for line in block.text.lines() {
            let Some((key, _)) = line.split_once(" = ") else { continue };
            let is_setting = serve.get_arguments().any(|arg| arg.get_long() == Some(key));
            assert!(is_setting, "{}: there is no setting {key:?}", block.page.display());
            n_settings += 1;
        }
    }
    assert!(n_settings > 20, "only {n_settings} settings found");
}

#[test]
fn commands_are_found_in_lines() {
    let found = |line: &str| commands(line).into_iter().map(|words| words[1..].join(" "));
    let one = |line: &str| found(line).collect::<Vec<_>>().join("; ");
    assert_eq!(one("$ runuser -u leasehold -- leasehold verify ./x   # a comment"), "verify ./x");
    assert_eq!(one("leasehold ls \\\n  --all | grep -q x"), "ls --all");
    assert_eq!(one("(leasehold serve --listen 127.0.0.1:1 2>log &)"), "serve --listen 127.0.0.1:1");
    assert_eq!(one("ExecStart=/usr/bin/leasehold run a 'b; c'"), "run a b; c");
    assert_eq!(one("systemctl restart leasehold"), "");
    assert_eq!(
        one(r#"leasehold run --metadata "{\"a\": \"$(b)\"}" c"#),
        r#"run --metadata {"a": "$(b)"} c"#
    );
}
