//! `leasehold backup`, `restore` and `verify`.

use std::path::{Path, PathBuf};

use clap::Args;
use leasehold_server::store::sqlite;
use serde_json::json;

use crate::ask::{ask, told};
use crate::connection::{ServerArgs, TrustArgs};
use crate::exit::{FAILED, Failure, USAGE};
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
    #[arg(long, env = "LEASEHOLD_API_KEY_FILE")]
    api_key_file: Option<PathBuf>,
    #[command(flatten)]
    trust: TrustArgs,
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
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// The data folder, or a backup.
    data: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn backup(args: &BackupArgs) -> Result<(), Failure> {
    match (&args.url, &args.target) {
        (Some(url), _) => backup_there(url, args),
        (None, Some(target)) => told(args.output, backup_here(args, target)),
        (None, None) => Err(Failure::new(USAGE, "TARGET or --url is required")),
    }
}

fn backup_here(args: &BackupArgs, target: &Path) -> Result<(), Failure> {
    rights::private();
    sqlite::backup(&args.data, target).map_err(failed)?;
    let (data, target) = (args.data.display(), target.display());
    if args.output.json {
        return print_json(&json!({"backup": target.to_string(), "data": data.to_string()}));
    }
    print(&format!("{target} is a copy of {data}"))
}

fn backup_there(url: &str, args: &BackupArgs) -> Result<(), Failure> {
    let server = ServerArgs::at(url, args.api_key_file.clone(), args.trust.clone());
    ask(args.output, async {
        let taken = server.reach().await?.take_backup().await?;
        if args.output.json {
            return print_json(&taken);
        }
        let (name, bytes) = (plain(&taken.name), taken.bytes);
        print(&format!("the server took the backup {name}, {bytes} bytes, below its backup-dir"))
    })
}

pub(crate) fn restore(args: &RestoreArgs) -> Result<(), Failure> {
    told(args.output, restored(args))
}

fn restored(args: &RestoreArgs) -> Result<(), Failure> {
    rights::private();
    sqlite::restore(&args.backup, &args.data).map_err(failed)?;
    let (data, backup) = (args.data.display(), args.backup.display());
    if args.output.json {
        return print_json(&json!({"data": data.to_string(), "backup": backup.to_string()}));
    }
    print(&format!(
        "{data} is restored from {backup}\n\
         its first start will end whatever was held, and hand out nothing twice"
    ))
}

pub(crate) fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    rights::private();
    let report = sqlite::verify(&args.data).map_err(failed);
    told(args.output, report.and_then(|report| show(args, &report)))
}

fn show(args: &VerifyArgs, report: &sqlite::Report) -> Result<(), Failure> {
    let counts = report.counts;
    if args.output.json {
        return print_json(&json!({
            "data": args.data.display().to_string(),
            "sound": true,
            "backup": report.is_backup,
            "journal_records": report.n_records,
            "last_record": report.seq,
            "locks": counts.n_locks,
            "idle_locks": counts.n_idle,
            "active_leases": counts.n_active,
            "waiting_leases": counts.n_waiting,
            "ended_leases": counts.n_ended,
            "sessions": counts.n_sessions,
        }));
    }
    let kind = if report.is_backup { " (a backup)" } else { "" };
    let lines = [
        format!("{} is sound{kind}", args.data.display()),
        format!("  journal   {} records to fold, the last is {}", report.n_records, report.seq),
        format!("  locks     {} ({} idle)", counts.n_locks, counts.n_idle),
        format!(
            "  leases    {} active, {} waiting, {} ended",
            counts.n_active, counts.n_waiting, counts.n_ended
        ),
        format!("  sessions  {}", counts.n_sessions),
    ];
    print(&lines.join("\n"))
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(FAILED, error)
}
