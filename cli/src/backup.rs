//! `leasehold backup`, `restore` and `verify`.

use std::path::{Path, PathBuf};

use clap::Args;
use leasehold_server::store::sqlite;

use crate::ask::ask;
use crate::connection::ServerArgs;
use crate::exit::{Failure, USAGE};
use crate::output::{OutputArgs, plain, print, print_json};
use crate::rights;

#[derive(Args)]
pub(crate) struct BackupArgs {
    /// The folder for the copy: new or empty.
    #[arg(required_unless_present = "url")]
    target: Option<PathBuf>,
    /// The data to copy; a server may be using it.
    #[arg(long, env = "LEASEHOLD_DATA", default_value = "./leasehold-data")]
    data: PathBuf,
    /// Have the server at this address take the backup, into the folder named by its setting backup-dir.
    #[arg(long, conflicts_with = "target")]
    url: Option<String>,
    /// A file with the API key for --url (default: LEASEHOLD_API_KEY).
    #[arg(long, env = "LEASEHOLD_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
pub(crate) struct RestoreArgs {
    /// The backup.
    backup: PathBuf,
    /// The data folder to make: new or empty.
    #[arg(long, env = "LEASEHOLD_DATA", default_value = "./leasehold-data")]
    data: PathBuf,
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// The data folder, or a backup.
    data: PathBuf,
}

pub(crate) fn backup(args: &BackupArgs) -> Result<(), Failure> {
    match (&args.url, &args.target) {
        (Some(url), _) => backup_there(url, args),
        (None, Some(target)) => Ok(backup_here(&args.data, target)?),
        (None, None) => Err(Failure::new(USAGE, "TARGET or --url is required")),
    }
}

#[expect(clippy::print_stdout, reason = "this is the answer")]
fn backup_here(data: &Path, target: &Path) -> Result<(), String> {
    rights::private();
    sqlite::backup(data, target).map_err(|error| error.to_string())?;
    println!("{} is a copy of {}", target.display(), data.display());
    Ok(())
}

fn backup_there(url: &str, args: &BackupArgs) -> Result<(), Failure> {
    let server = ServerArgs::at(url, args.token_file.clone());
    ask(args.output, async {
        let taken = server.client()?.take_backup().await?;
        if args.output.json {
            return print_json(&taken);
        }
        let (name, bytes) = (plain(&taken.name), taken.bytes);
        print(&format!("the server took the backup {name}, {bytes} bytes, below its backup-dir"))
    })
}

#[expect(clippy::print_stdout, reason = "this is the answer")]
pub(crate) fn restore(args: &RestoreArgs) -> Result<(), String> {
    rights::private();
    sqlite::restore(&args.backup, &args.data).map_err(|error| error.to_string())?;
    println!("{} is restored from {}", args.data.display(), args.backup.display());
    println!("its first start will end whatever was held, and hand out nothing twice");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this is the answer")]
pub(crate) fn verify(args: &VerifyArgs) -> Result<(), String> {
    rights::private();
    let report = sqlite::verify(&args.data).map_err(|error| error.to_string())?;
    let counts = report.counts;
    let kind = if report.is_backup { " (a backup)" } else { "" };
    println!("{} is sound{kind}", args.data.display());
    println!("  journal   {} records to fold, the last is {}", report.n_records, report.seq);
    println!("  locks     {} ({} idle)", counts.n_locks, counts.n_idle);
    println!(
        "  leases    {} active, {} waiting, {} ended",
        counts.n_active, counts.n_waiting, counts.n_ended
    );
    println!("  sessions  {}", counts.n_sessions);
    Ok(())
}
