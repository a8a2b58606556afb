//! The `leasehold` command.

/// mimalloc is used because much memory is freed on another thread than the one that allocated it; the system's
/// allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod acquire;
mod ask;
mod audit;
mod auth;
mod backup;
#[cfg(all(test, target_os = "linux"))]
mod book;
#[cfg(feature = "etcd")]
mod cluster;
mod completions;
mod config;
mod connection;
mod doctor;
mod duration;
mod exit;
mod history;
mod init;
mod interrupt;
mod json;
mod key;
mod key_file;
mod load;
mod log;
mod ls;
mod man;
mod migrate;
mod output;
mod owner;
mod proof;
mod recover;
mod release;
mod renew;
mod revoke;
mod rights;
#[cfg(target_os = "linux")]
mod run;
mod screen;
mod serve;
mod session;
mod state;
mod status;
mod table;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use exit::Failure;

const EXAMPLES: &str = "\
Examples:
  leasehold serve                             # the server, on http://127.0.0.1:8080
  leasehold run nightly ./backup.sh           # a command that runs only once at a time
  leasehold ls                                # locks, holders and waiters
  leasehold help acquire

Every client command uses the server of --url or LEASEHOLD_URL. For details, see docs/reference/cli.md;
for exit statuses, docs/reference/errors.md.";

/// A lock server: leases with fencing tokens, fair queues, sessions and grace periods.
#[derive(Parser)]
#[command(name = "leasehold", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[cfg(target_os = "linux")]
    Run(Box<run::RunArgs>),
    Acquire(Box<acquire::AcquireArgs>),
    Renew(renew::RenewArgs),
    Release(release::ReleaseArgs),
    Status(status::StatusArgs),
    Ls(ls::LsArgs),
    Watch(watch::WatchArgs),
    History(history::HistoryArgs),
    Revoke(revoke::RevokeArgs),
    Session(session::SessionArgs),
    State(state::StateArgs),
    Load(load::LoadArgs),
    Audit(audit::AuditArgs),
    Auth(auth::AuthArgs),
    Key(Box<key::KeyArgs>),
    /// Create the store of a cluster, in etcd.
    #[command(
        after_help = "Example:\n  leasehold init --store etcd://etcd1:2379,etcd2:2379,etcd3:2379/leasehold"
    )]
    Init(init::InitArgs),
    #[cfg(feature = "etcd")]
    Cluster(cluster::ClusterArgs),
    /// Finish the upgrade of a cluster, after every server was upgraded.
    #[cfg(feature = "etcd")]
    #[command(
        after_help = "Example:\n  leasehold upgrade --finish --store etcd://etcd1:2379/leasehold"
    )]
    Upgrade(cluster::UpgradeArgs),
    /// Run the server.
    #[command(
        after_help = "Example:\n  leasehold serve --listen 127.0.0.1:8080 --data ./leasehold-data"
    )]
    Serve(Box<config::Args>),
    /// Print the settings `serve` would use as TOML, with the source of each, or report what is invalid.
    #[command(after_help = "Example:\n  leasehold check-config --config leasehold.toml")]
    CheckConfig(Box<serve::CheckArgs>),
    /// Check the host, files and settings for a server, and suggest fixes.
    #[command(after_help = "Example:\n  leasehold doctor --config leasehold.toml")]
    Doctor(Box<doctor::DoctorArgs>),
    /// Copy the data of a server, running or not.
    #[command(after_help = "Examples:\n  leasehold backup ./copy --data ./leasehold-data\n  \
                      leasehold backup ./copy --store etcd://etcd1:2379/leasehold\n  \
                      leasehold backup --url http://127.0.0.1:8080")]
    Backup(backup::BackupArgs),
    /// Create a data directory, or a store in etcd, from a backup.
    #[command(after_help = "Examples:\n  leasehold restore ./copy --data ./new-data\n  \
                      leasehold restore ./copy --store etcd://etcd1:2379/leasehold")]
    Restore(backup::RestoreArgs),
    /// Check a data directory that no server uses, or a store in etcd.
    #[command(after_help = "Examples:\n  leasehold verify ./leasehold-data\n  \
                      leasehold verify --store etcd://etcd1:2379/leasehold")]
    Verify(backup::VerifyArgs),
    /// Move a store from a data directory to etcd, or back. Its leases stay valid.
    #[command(
        after_help = "Example:\n  leasehold migrate --from ./leasehold-data --to etcd://etcd1:2379/leasehold"
    )]
    Migrate(migrate::MigrateArgs),
    /// Undo a migration: reopen a store that `migrate` closed.
    #[command(after_help = "Example:\n  leasehold reopen ./leasehold-data --target-unused")]
    Reopen(migrate::ReopenArgs),
    /// Recover the intact part of a damaged data directory, so that its server can start again.
    #[command(after_help = "Example:\n  leasehold recover ./leasehold-data --accept-loss")]
    Recover(recover::RecoverArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    /// Internal part of `run`: becomes the command.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Launch(run::LaunchArgs),
    /// Internal part of `run`: ends the command if `run` cannot.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Warden(run::WardenArgs),
    /// Internal part of `run`: dies of the signal that ended the command.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Die(run::DieArgs),
}

fn main() -> ExitCode {
    let typed: Vec<_> = std::env::args_os().collect();
    let given = match config::Given::new(typed.iter().cloned()) {
        Ok(given) => given,
        Err(why) => return config::refusal(&typed, why).report(),
    };
    let words: Vec<_> = given.words().cloned().collect();
    #[cfg(target_os = "linux")]
    let words = run::separated(words);
    let cli = match Cli::try_parse_from(words).map_err(config::discreet) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && config::is_json_chosen(&typed) => {
            let said = error.to_string();
            let first = said.split("\n\n").next().unwrap_or_default();
            let first = first.strip_prefix("error: ").unwrap_or(first);
            log::tell("ERROR", first, serde_json::Map::new());
            return ExitCode::from(exit::USAGE);
        }
        Err(error) => return unparsed(&error),
    };
    dispatch(cli.command, &given).unwrap_or_else(|failure| failure.report())
}

fn dispatch(command: Command, given: &config::Given) -> Result<ExitCode, Failure> {
    match command {
        #[cfg(target_os = "linux")]
        Command::Run(args) => return run::run(&args),
        #[cfg(target_os = "linux")]
        Command::Launch(args) => return Err(run::launch(&args)),
        #[cfg(target_os = "linux")]
        Command::Warden(args) => run::warden(&args)?,
        #[cfg(target_os = "linux")]
        Command::Die(args) => return Ok(run::die(&args)),
        Command::Acquire(args) => return acquire::acquire(&args),
        Command::Renew(args) => renew::renew(&args)?,
        Command::Release(args) => release::release(&args)?,
        Command::Status(args) => return status::status(&args),
        Command::Ls(args) => ls::ls(&args)?,
        Command::Watch(args) => watch::watch(&args)?,
        Command::History(args) => history::history(&args)?,
        Command::Revoke(args) => revoke::revoke(&args)?,
        Command::Session(args) => session::session(&args)?,
        Command::State(args) => state::state(&args)?,
        Command::Load(args) => return load::load(args),
        Command::Audit(args) => audit::audit(&args)?,
        Command::Auth(args) => auth::auth(&args)?,
        Command::Key(args) => key::key(&args)?,
        Command::Init(args) => init::init(&args)?,
        #[cfg(feature = "etcd")]
        Command::Cluster(args) => cluster::cluster(&args)?,
        #[cfg(feature = "etcd")]
        Command::Upgrade(args) => cluster::upgrade(&args)?,
        Command::Serve(args) => serve::serve(*args, given)?,
        Command::CheckConfig(args) => serve::check(&args, given)?,
        Command::Doctor(args) => return doctor::doctor(&args, given),
        Command::Backup(args) => backup::backup(&args)?,
        Command::Restore(args) => backup::restore(&args)?,
        Command::Verify(args) => backup::verify(&args)?,
        Command::Migrate(args) => migrate::migrate(&args)?,
        Command::Reopen(args) => migrate::reopen(&args)?,
        Command::Recover(args) => recover::recover(&args)?,
        Command::Completions(args) => completions::completions(&args)?,
        Command::Man(args) => man::man(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the requested help, or the usage error.
fn unparsed(error: &clap::Error) -> ExitCode {
    // A write error cannot be reported anywhere.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(exit::USAGE) } else { ExitCode::SUCCESS }
}
