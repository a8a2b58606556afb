//! The command `leasehold`.

mod backup;
mod config;
mod connection;
mod duration;
mod exit;
mod log;
#[cfg(target_os = "linux")]
mod run;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use exit::Failure;

/// A lock server: leases with fencing tokens, fair queues, sessions and grace periods.
#[derive(Parser)]
#[command(name = "leasehold", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[cfg(target_os = "linux")]
    Run(run::RunArgs),
    /// Run the server.
    Serve(Box<config::Args>),
    /// Say what `serve` would do with these settings, or what is wrong with them.
    CheckConfig(Box<config::Args>),
    /// Copy the data of a server, running or not.
    Backup(backup::BackupArgs),
    /// Make a data folder from a backup.
    Restore(backup::RestoreArgs),
    /// Check a data folder no server uses.
    Verify(backup::VerifyArgs),
    /// Part of `run`: becomes the command.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Launch(run::LaunchArgs),
    /// Part of `run`: ends the command if `run` cannot.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Warden(run::WardenArgs),
}

fn main() -> ExitCode {
    let arguments = match config::arguments(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => return Failure::from(error).report(),
    };
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return unparsed(&error),
    };
    dispatch(cli.command).unwrap_or_else(|failure| failure.report())
}

fn dispatch(command: Command) -> Result<ExitCode, Failure> {
    match command {
        #[cfg(target_os = "linux")]
        Command::Run(args) => return run::run(args),
        #[cfg(target_os = "linux")]
        Command::Launch(args) => return Err(run::launch(&args)),
        #[cfg(target_os = "linux")]
        Command::Warden(args) => run::warden(&args)?,
        Command::Serve(args) => serve::serve(*args)?,
        Command::CheckConfig(args) => serve::check(*args)?,
        Command::Backup(args) => backup::backup(&args)?,
        Command::Restore(args) => backup::restore(&args)?,
        Command::Verify(args) => backup::verify(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Help was asked for, or something made no sense.
fn unparsed(error: &clap::Error) -> ExitCode {
    // Nobody is left to tell if this fails.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(exit::USAGE) } else { ExitCode::SUCCESS }
}
