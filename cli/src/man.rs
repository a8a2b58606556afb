//! `leasehold man`: the manual, generated from the same texts as `--help`.

use std::io;
use std::path::{Path, PathBuf};

use clap::builder::Resettable;
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;

use crate::exit::{Failure, SYSTEM, Status, USAGE, statuses};
use crate::output::print;

const EXAMPLES: &str = "\
Examples:
  leasehold man | man -l -
  leasehold man session open | man -l -
  leasehold man --out /usr/local/share/man/man1";

/// The start of the paragraph in `--help` that goes before the list of exit statuses.
const EXIT_STATUS: &str = "Exit status:";

/// Print a page of the manual, or write all of them.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// The command that the page describes [default: all of `leasehold`]
    command: Vec<String>,
    /// Write every page into this directory instead.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
}

pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    let whole = whole();
    if let Some(folder) = &args.out {
        let why = |error: io::Error| Failure::new(SYSTEM, format!("{}: {error}", folder.display()));
        let written = std::fs::create_dir_all(folder).and_then(|()| write(&whole, folder));
        return written.map_err(why);
    }
    let mut command = &whole;
    for name in &args.command {
        let unknown = || Failure::new(USAGE, format!("unknown command {name:?}"));
        command = command.find_subcommand(name).ok_or_else(unknown)?;
    }
    let text = page(command).map_err(|error| Failure::new(SYSTEM, error))?;
    print(text.trim_end())
}

/// Returns all commands, each with its full name.
fn whole() -> Command {
    let mut whole = crate::Cli::command().disable_help_subcommand(true);
    whole.build();
    whole
}

/// Returns the page as roff, with the command's exit statuses and the closing paragraphs of `--help`.
fn page(command: &Command) -> io::Result<String> {
    let mut text = Vec::new();
    man_of(command).render(&mut text)?;
    let mut page = String::from_utf8_lossy(&text).trim_end().to_owned();
    let rest = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let rest = Rest::of(&rest);
    let name = command.get_bin_name().unwrap_or_default();
    let words = name.strip_prefix("leasehold").unwrap_or(name).trim_start();
    let listed = statuses(words)
        .into_iter()
        .map(|Status { status, meaning, .. }| format!(".TP\n\\fB{status}\\fR\n{}", roff(meaning)));
    page += "\n.SH \"EXIT STATUS\"\n";
    page += &roff(rest.ending.trim_start());
    page += &listed.collect::<Vec<_>>().concat();
    section(&mut page, "EXAMPLES", &rest.examples);
    section(&mut page, "NOTES", &rest.notes);
    Ok(page)
}

/// The closing paragraphs of `--help`, by kind.
#[derive(Default)]
struct Rest {
    examples: Vec<String>,
    /// The meaning of the exit statuses for this command.
    ending: String,
    notes: Vec<String>,
}

impl Rest {
    /// Sorts the paragraphs by how they start.
    fn of(text: &str) -> Self {
        let mut rest = Self::default();
        for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
            match paragraph.split_once('\n') {
                Some((first, lines)) if first.starts_with("Example") => {
                    rest.examples.push(lines.into());
                }
                _ if paragraph.starts_with(EXIT_STATUS) => {
                    rest.ending = paragraph.trim_start_matches(EXIT_STATUS).into();
                }
                _ => rest.notes.push(paragraph.into()),
            }
        }
        rest
    }
}

/// Appends a section without filling its lines: commands, and text that already has line breaks.
fn section(page: &mut String, heading: &str, paragraphs: &[String]) {
    if paragraphs.is_empty() {
        return;
    }
    let paragraphs: Vec<_> = paragraphs.iter().map(|paragraph| roff(paragraph)).collect();
    *page += &format!(".SH {heading}\n.nf\n{}.fi\n", paragraphs.join(".sp\n"));
}

/// Escapes text for roff, so that no line is a command and hyphens stay hyphens.
fn roff(text: &str) -> String {
    let line = |line: &str| {
        let shown = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
        let guard = if shown.starts_with('.') { "\\&" } else { "" };
        format!("{guard}{shown}\n")
    };
    text.lines().map(line).collect()
}

fn man_of(command: &Command) -> Man {
    let source = concat!("leasehold ", env!("CARGO_PKG_VERSION"));
    let command = command.clone().after_help(Resettable::Reset);
    Man::new(command).source(source).manual("Leasehold")
}

fn write(command: &Command, folder: &Path) -> io::Result<()> {
    std::fs::write(folder.join(man_of(command).get_filename()), page(command)?)?;
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    for command in shown {
        write(command, folder)?;
    }
    Ok(())
}
