//! `leasehold backup`, `restore` and `verify`.

use std::path::PathBuf;

use clap::Args;
use leasehold_server::store::sqlite;

#[derive(Args)]
pub(crate) struct BackupArgs {
    /// Where to put the copy: a new or empty folder.
    target: PathBuf,
    /// The data to copy; a server may be using it.
    #[arg(long, env = "LEASEHOLD_DATA", default_value = "./leasehold-data")]
    data: PathBuf,
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

#[expect(clippy::print_stdout, reason = "this is the answer")]
pub(crate) fn backup(args: &BackupArgs) -> Result<(), String> {
    sqlite::backup(&args.data, &args.target).map_err(|error| error.to_string())?;
    println!("{} is a copy of {}", args.target.display(), args.data.display());
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this is the answer")]
pub(crate) fn restore(args: &RestoreArgs) -> Result<(), String> {
    sqlite::restore(&args.backup, &args.data).map_err(|error| error.to_string())?;
    println!("{} is restored from {}", args.data.display(), args.backup.display());
    println!("its first start will end whatever was held, and hand out nothing twice");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this is the answer")]
pub(crate) fn verify(args: &VerifyArgs) -> Result<(), String> {
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
