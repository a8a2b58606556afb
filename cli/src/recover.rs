//! `leasehold recover`.

use std::path::PathBuf;

use clap::Args;
use leasehold_server::store::sqlite::{self, Recovered};

#[derive(Args)]
pub(crate) struct RecoverArgs {
    /// The data folder whose server refuses to start. No server may be using it.
    data: PathBuf,
    /// Give up whatever is damaged, and end every lease.
    #[arg(long)]
    accept_loss: bool,
}

#[expect(clippy::print_stdout, reason = "this is the answer")]
pub(crate) fn recover(args: &RecoverArgs) -> Result<(), String> {
    let data = args.data.display();
    if !args.accept_loss {
        return Err(match sqlite::verify(&args.data) {
            Ok(_) => format!("{data} is sound: there is nothing to recover"),
            Err(why) => format!(
                "{why}\nIf you have a backup, restore it. Otherwise add --accept-loss: what is damaged is given \
                 up, every lease ends, and no token is handed out twice"
            ),
        });
    }
    let recovered = sqlite::recover(&args.data).map_err(|error| error.to_string())?;
    let Recovered { why, kept_through, acknowledged_through, ended, damaged, .. } = &recovered;
    println!("{data} is recovered: its server will start");
    println!("  damage    {why}");
    if !recovered.are_tables_sound {
        println!("  kept      tokens and numbers only: the tables are damaged");
    } else {
        println!("  kept      records up to {kept_through}");
    }
    if acknowledged_through > kept_through {
        println!("  lost      records {} to {acknowledged_through}", kept_through + 1);
    }
    println!(
        "  ended     {} leases, {} waiting, {} sessions: by the next start",
        ended.n_active, ended.n_waiting, ended.n_sessions
    );
    println!("  damaged   files are kept in {}", damaged.display());
    Ok(())
}
