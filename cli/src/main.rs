//! The command `leasehold`.

mod backup;
mod config;
mod duration;
mod log;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A lock server: leases with fencing tokens, fair queues, sessions and grace periods.
#[derive(Parser)]
#[command(name = "leasehold", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
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
}

fn main() -> ExitCode {
    let cli = match config::arguments(std::env::args_os()) {
        Ok(arguments) => Cli::parse_from(arguments),
        Err(error) => return fail(&error),
    };
    let result = match cli.command {
        Command::Serve(args) => serve::serve(*args),
        Command::CheckConfig(args) => serve::check(*args),
        Command::Backup(args) => backup::backup(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Verify(args) => backup::verify(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

#[expect(clippy::print_stderr, reason = "this is how a command fails")]
fn fail(error: &str) -> ExitCode {
    eprintln!("leasehold: {error}");
    ExitCode::FAILURE
}
