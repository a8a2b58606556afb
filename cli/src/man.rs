//! `leasehold man`: the manual, made from the same words as `--help`.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;

use crate::exit::{Failure, STATUSES, SYSTEM, USAGE};
use crate::output::print;

const EXAMPLES: &str = "\
Examples:
  leasehold man | man -l -
  leasehold man session open | man -l -
  leasehold man --out /usr/local/share/man/man1";

/// Print a page of the manual, or write all of them.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// The command the page is about; the whole of `leasehold` if left out.
    command: Vec<String>,
    /// Write every page into this folder instead.
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
        let unknown = || Failure::new(USAGE, format!("there is no command {name:?}"));
        command = command.find_subcommand(name).ok_or_else(unknown)?;
    }
    let text = page(command).map_err(|error| Failure::new(SYSTEM, error))?;
    print(text.trim_end())
}

/// Every command, under its whole name.
fn whole() -> Command {
    let mut whole = crate::Cli::command().disable_help_subcommand(true);
    whole.build();
    whole
}

/// The page as roff, with every exit status.
fn page(command: &Command) -> io::Result<String> {
    let mut text = Vec::new();
    man_of(command).render(&mut text)?;
    let statuses = STATUSES.map(|(status, meaning)| format!(".TP\n\\fB{status}\\fR\n{meaning}\n"));
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(format!("{}\n.SH \"EXIT STATUS\"\n{}", text.trim_end(), statuses.concat()))
}

fn man_of(command: &Command) -> Man {
    let source = concat!("leasehold ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).source(source).manual("Leasehold")
}

fn write(command: &Command, folder: &Path) -> io::Result<()> {
    std::fs::write(folder.join(man_of(command).get_filename()), page(command)?)?;
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    for command in shown {
        write(command, folder)?;
    }
    Ok(())
}
