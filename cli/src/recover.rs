//! `leasehold recover`: recovers the intact part of a damaged data directory.

use std::path::PathBuf;

use clap::Args;
use leasehold_store::sqlite::{self, Recovered};
use serde_json::json;

use crate::ask::told;
use crate::exit::Failure;
use crate::output::{OutputArgs, print, print_json};

#[derive(Args)]
pub(crate) struct RecoverArgs {
    /// The data directory whose server refuses to start. No server may use it.
    data: PathBuf,
    /// Accept the loss of damaged data, and end all leases.
    #[arg(long)]
    accept_loss: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn recover(args: &RecoverArgs) -> Result<(), Failure> {
    told(args.output, recovered(args))
}

fn recovered(args: &RecoverArgs) -> Result<(), Failure> {
    if !args.accept_loss {
        let data = args.data.display();
        return Err(Failure::from(match sqlite::verify(&args.data) {
            Ok(_) => format!("{data} is intact: nothing to recover"),
            Err(why) => format!(
                "{why}\nIf you have a backup, restore it. Otherwise add --accept-loss: this discards damaged data and \
                 ends every lease; no fencing token is granted twice"
            ),
        }));
    }
    let recovered = sqlite::recover(&args.data).map_err(|error| error.to_string())?;
    show(args, &recovered)
}

fn show(args: &RecoverArgs, recovered: &Recovered) -> Result<(), Failure> {
    let Recovered { why, kept_through, acknowledged_through, ended, damaged, .. } = recovered;
    let data = args.data.display();
    let n_lost = acknowledged_through.saturating_sub(*kept_through);
    if args.output.json {
        return print_json(&json!({
            "data": data.to_string(),
            "recovered": true,
            "damage": why,
            "tables_sound": recovered.are_tables_sound,
            "kept_through": kept_through,
            "lost_records": n_lost,
            "ended_leases": ended.n_active,
            "ended_waits": ended.n_waiting,
            "ended_sessions": ended.n_sessions,
            "damaged_files": damaged.display().to_string(),
        }));
    }
    let kept = match recovered.are_tables_sound {
        true => format!("records up to {kept_through}"),
        false => "tokens and numbers only: the tables are damaged".into(),
    };
    let mut lines = vec![
        format!("recovered {data}: its server can start"),
        format!("  damage    {why}"),
        format!("  kept      {kept}"),
    ];
    if n_lost > 0 {
        lines.push(format!("  lost      records {} to {acknowledged_through}", kept_through + 1));
    }
    lines.push(format!(
        "  ended     {} leases, {} waiting, {} sessions, at the next start",
        ended.n_active, ended.n_waiting, ended.n_sessions
    ));
    lines.push(format!("  damaged   files are in {}", damaged.display()));
    print(&lines.join("\n"))
}
