//! `leasehold backup`, `restore` and `verify`.

use std::path::{Path, PathBuf};

use clap::Args;
use leasehold_server::cluster::Location;
use leasehold_server::cluster::transfer::{self, Address};
use leasehold_store::sqlite;
use serde_json::json;

use crate::ask::{ask, told};
use crate::config::EtcdArgs;
use crate::connection::{ServerArgs, TrustArgs};
use crate::exit::{FAILED, Failure, USAGE};
use crate::output::{OutputArgs, plain, print, print_json};
use crate::rights;

/// Environment variable for the store of a cluster, used if the command line names no data.
const STORE: &str = "LEASEHOLD_STORE";
/// Environment variable for the data directory, used if no store is named either.
const DATA: &str = "LEASEHOLD_DATA";

#[derive(Args)]
pub(crate) struct BackupArgs {
    /// Directory for the copy; must be new or empty.
    #[arg(required_unless_present = "url")]
    target: Option<PathBuf>,
    /// Data directory to copy; its server can be running [default: LEASEHOLD_DATA, or ./leasehold-data]
    #[arg(long)]
    data: Option<PathBuf>,
    /// Store to copy, instead of --data: etcd://HOST:PORT,HOST:PORT/PREFIX; its servers can be running [default:
    /// LEASEHOLD_STORE, unless --data is given]
    #[arg(long, conflicts_with_all = ["url", "data"])]
    store: Option<Location>,
    #[command(flatten)]
    etcd: EtcdArgs,
    /// URL of a server that takes the backup itself, into the directory of its setting backup-dir.
    #[arg(long, conflicts_with = "target")]
    url: Option<String>,
    /// File with the API key for --url [default: LEASEHOLD_API_KEY]
    #[arg(long, env = "LEASEHOLD_API_KEY_FILE")]
    api_key_file: Option<PathBuf>,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
pub(crate) struct RestoreArgs {
    /// Backup to restore.
    backup: PathBuf,
    /// Data directory to create; must be new or empty [default: LEASEHOLD_DATA, or ./leasehold-data]
    #[arg(long)]
    data: Option<PathBuf>,
    /// Store to restore, instead of --data: etcd://HOST:PORT,HOST:PORT/PREFIX; must be empty, or be the store that
    /// the backup was taken from and have no leader [default: LEASEHOLD_STORE, unless --data is given]
    #[arg(long, conflicts_with = "data")]
    store: Option<Location>,
    #[command(flatten)]
    etcd: EtcdArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// Data directory or backup to check.
    #[arg(conflicts_with = "store")]
    data: Option<PathBuf>,
    /// Store to check, instead of a data directory: etcd://HOST:PORT,HOST:PORT/PREFIX; its servers can be running
    /// [default: LEASEHOLD_STORE, unless a directory is given]
    #[arg(long)]
    store: Option<Location>,
    #[command(flatten)]
    etcd: EtcdArgs,
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
    let from = meant(args.data.as_ref(), args.store.as_ref())?;
    let (kind, source) = match from.unwrap_or_else(usual) {
        Address::Shared(store) => {
            let source = store.to_string();
            transfer::backup(&args.etcd.access(store), target).map_err(failed)?;
            ("store", source)
        }
        Address::Folder(data) => {
            sqlite::backup(&data, target).map_err(failed)?;
            ("data", data.display().to_string())
        }
    };
    let target = target.display();
    if args.output.json {
        return print_json(&json!({"backup": target.to_string(), kind: source}));
    }
    print(&format!("{target} is a copy of {source}"))
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
    let to = meant(args.data.as_ref(), args.store.as_ref())?;
    let data = match to.unwrap_or_else(usual) {
        Address::Shared(store) => return restored_there(args, &store),
        Address::Folder(data) => data,
    };
    sqlite::restore(&args.backup, &data).map_err(failed)?;
    let (data, backup) = (data.display(), args.backup.display());
    if args.output.json {
        return print_json(&json!({"data": data.to_string(), "backup": backup.to_string()}));
    }
    print(&format!(
        "restored {data} from {backup}\nits first start ends all leases; no fencing token is granted twice"
    ))
}

fn restored_there(args: &RestoreArgs, store: &Location) -> Result<(), Failure> {
    transfer::restore(&args.backup, &args.etcd.access(store.clone())).map_err(failed)?;
    let (store, backup) = (store.to_string(), args.backup.display());
    if args.output.json {
        return print_json(&json!({"store": store, "backup": backup.to_string()}));
    }
    print(&format!(
        "restored {store} from {backup}\nall leases have ended; no fencing token is granted twice; servers can lead \
         immediately"
    ))
}

pub(crate) fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    rights::private();
    told(args.output, verified(args))
}

fn verified(args: &VerifyArgs) -> Result<(), Failure> {
    let (kind, what, report) = match meant(args.data.as_ref(), args.store.as_ref())? {
        Some(Address::Shared(store)) => {
            let what = store.to_string();
            ("store", what, transfer::verify(&args.etcd.access(store)).map_err(failed)?)
        }
        Some(Address::Folder(data)) => {
            ("data", data.display().to_string(), sqlite::verify(&data).map_err(failed)?)
        }
        None => {
            let why = "a data directory, a backup or --store (LEASEHOLD_STORE) is required";
            return Err(Failure::new(USAGE, why));
        }
    };
    show(args, (kind, &what), &report)
}

fn show(
    args: &VerifyArgs,
    (kind, what): (&str, &str),
    report: &sqlite::Report,
) -> Result<(), Failure> {
    let counts = report.counts;
    if args.output.json {
        return print_json(&json!({
            kind: what,
            "sound": true,
            "moved_to": report.moved_to,
            "rewound": report.is_rewound,
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
    let is = if report.is_backup { " (a backup)" } else { "" };
    let rest = if kind == "store" { "not in the snapshot" } else { "to fold" };
    let mut lines = vec![
        format!("{what} is intact{is}"),
        format!("  journal   {} records {rest}, the last is {}", report.n_records, report.seq),
        format!("  locks     {} ({} idle)", counts.n_locks, counts.n_idle),
        format!(
            "  leases    {} active, {} waiting, {} ended",
            counts.n_active, counts.n_waiting, counts.n_ended
        ),
        format!("  sessions  {}", counts.n_sessions),
    ];
    if let Some(moved_to) = &report.moved_to {
        lines.push(format!("  closed    the store has moved to {}", plain(moved_to)));
    }
    if report.is_rewound {
        lines.push(
            "  rewound   the store was rolled back to an earlier state: no server can lead until a restore"
                .into(),
        );
    }
    print(&lines.join("\n"))
}

/// Returns the data that a command works on: what the command line names, or else the store that the environment
/// names, as for `serve` and `cluster`. clap cannot do this, because a directory on the command line must take
/// precedence over a store in the environment.
fn meant(data: Option<&PathBuf>, store: Option<&Location>) -> Result<Option<Address>, Failure> {
    if let Some(store) = store {
        return Ok(Some(Address::Shared(store.clone())));
    }
    if let Some(data) = data {
        return Ok(Some(Address::Folder(data.clone())));
    }
    let Some(store) = std::env::var_os(STORE) else { return Ok(None) };
    let store = store.to_string_lossy().parse();
    let wrong = |why: String| Failure::new(USAGE, format!("{STORE}: {why}"));
    store.map(|store| Some(Address::Shared(store))).map_err(wrong)
}

/// Returns the data directory that a server uses by default.
fn usual() -> Address {
    Address::Folder(std::env::var_os(DATA).map_or_else(|| "./leasehold-data".into(), PathBuf::from))
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(FAILED, error)
}
