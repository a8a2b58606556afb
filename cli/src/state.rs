//! `leasehold state`: the Terraform states on a server, and their versions.

use std::io::Write;
use std::time::Duration;

use clap::{Args, Subcommand};
use leasehold::Error;
use leasehold::api::{StateVersion, TerraformState};

use crate::ask::ask;
use crate::connection::ServerArgs;
use crate::duration::glance;
use crate::exit::{CONFLICT, Failure, SYSTEM};
use crate::output::{OutputArgs, plain, print, print_json};
use crate::screen::Screen;
use crate::table::Table;

const EXAMPLES: &str = "\
Examples:
  leasehold state ls
  leasehold state ls prod
  leasehold state get prod --version 7 >old.tfstate
  leasehold state rollback prod 7

A rollback creates a new version with the content of an old one. It is refused while the state is locked.

Exit status: 0; 1 the state is locked; 76 there is no such state or version; 68 the server cannot be reached.";

/// Inspect Terraform states and their versions, and roll back to a version.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StateArgs {
    #[command(subcommand)]
    command: StateCommand,
}

#[derive(Subcommand, Debug)]
enum StateCommand {
    /// List all states, or the versions of one.
    Ls {
        /// The state whose versions to list.
        state: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Print a state.
    Get {
        /// The name of the state.
        state: String,
        /// The number of an earlier version [default: the current one]
        #[arg(long, value_name = "NUMBER")]
        version: Option<u64>,
        #[command(flatten)]
        output: OutputArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Roll a state back to an earlier version.
    Rollback {
        /// The name of the state.
        state: String,
        /// The number of the version, as `ls` shows it.
        version: u64,
        #[command(flatten)]
        output: OutputArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
}

pub(crate) fn state(args: &StateArgs) -> Result<(), Failure> {
    match &args.command {
        StateCommand::Ls { state: None, output, server } => ask(*output, async {
            let all = server.reach().await?.terraform_states().await?;
            if output.json {
                return print_json(&all);
            }
            print(states(&all.states).trim_end())
        }),
        StateCommand::Ls { state: Some(state), output, server } => ask(*output, async {
            let all = server.reach().await?.terraform_versions(state).await?;
            if output.json {
                return print_json(&all);
            }
            print(versions(&all.versions).trim_end())
        }),
        StateCommand::Get { state, version, output, server } => ask(*output, async {
            let bytes = server.reach().await?.terraform_state(state, *version).await?;
            // Exactly the stored bytes: they might be piped to `terraform state push`.
            std::io::stdout().write_all(&bytes).map_err(|error| Failure::new(SYSTEM, error))
        }),
        StateCommand::Rollback { state, version, output, server } => ask(*output, async {
            let restored = server.reach().await?.terraform_restore(state, *version).await;
            let written = restored.map_err(locked)?;
            if output.json {
                return print_json(&written);
            }
            let (state, n) = (plain(state), written.version);
            print(&format!("rolled {state} back to version {version}, as version {n}"))
        }),
    }
}

/// Explains the error if another holder has locked the state.
fn locked(error: Error) -> Failure {
    match &error {
        Error::Failed { status: 409 | 423, failure } => {
            Failure::new(CONFLICT, plain(&failure.error))
        }
        _ => error.into(),
    }
}

fn age(modified_ms: i64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_ms = now.map_or(0, |now| now.as_millis() as i64);
    format!(
        "{} ago",
        glance(Duration::from_millis(now_ms.saturating_sub(modified_ms).max(0) as u64))
    )
}

fn states(all: &[TerraformState]) -> String {
    let mut table = Table::new(["STATE", "VERSION", "BYTES", "WRITTEN", "LOCKED BY"]);
    for TerraformState { state, latest, locked_by } in all {
        table.row([
            state.clone(),
            latest.version.to_string(),
            latest.size.to_string(),
            age(latest.modified_ms),
            locked_by.clone().unwrap_or_else(|| "-".into()),
        ]);
    }
    table.render(Screen::of_stdout())
}

fn versions(all: &[StateVersion]) -> String {
    let mut table = Table::new(["VERSION", "BYTES", "WRITTEN"]);
    for StateVersion { version, size, modified_ms } in all {
        table.row([version.to_string(), size.to_string(), age(*modified_ms)]);
    }
    table.render(Screen::of_stdout())
}
