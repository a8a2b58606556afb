//! `leasehold completions`: what a shell should know to complete our command line.

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

use crate::exit::Failure;
use crate::output::print;

const EXAMPLES: &str = "\
Examples:
  leasehold completions bash > ~/.local/share/bash-completion/completions/leasehold
  leasehold completions zsh > ~/.zfunc/_leasehold
  leasehold completions fish > ~/.config/fish/completions/leasehold.fish";

/// Print a script that completes `leasehold` in a shell.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut shown(), "leasehold", &mut script);
    print(String::from_utf8_lossy(&script).trim_end())
}

/// Everything but what is hidden: that is no command for people, and a shell would offer it.
fn shown() -> Command {
    let whole = crate::Cli::command();
    let shown = whole.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new("leasehold").version(env!("CARGO_PKG_VERSION")).subcommands(shown.cloned())
}
