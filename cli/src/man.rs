//! `leasehold man`: the manual, made from the same words as `--help`.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;

use crate::exit::{Failure, SYSTEM, USAGE};
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
        return write(whole, folder).map_err(why);
    }
    let mut command = &whole;
    for name in &args.command {
        let unknown = || Failure::new(USAGE, format!("there is no command {name:?}"));
        command = command.find_subcommand(name).ok_or_else(unknown)?;
    }
    let page = page(command.clone()).map_err(|error| Failure::new(SYSTEM, error))?;
    print(page.trim_end())
}

/// Every command under its whole name. The page must be the same wherever it is made, so what variables are set to
/// is left out.
fn whole() -> Command {
    let mut whole = hidden_values(crate::Cli::command());
    whole.build();
    whole
}

fn hidden_values(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_env_values(true)).mut_subcommands(hidden_values)
}

fn page(command: Command) -> io::Result<String> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

fn write(whole: Command, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(whole, folder)
}
