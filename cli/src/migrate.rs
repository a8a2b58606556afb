//! `leasehold migrate` and `reopen`: move a store from a data directory to etcd, or back.

use clap::Args;
use leasehold_server::cluster::transfer::{self, Address, Home};
use serde_json::json;

use crate::ask::told;
use crate::config::EtcdArgs;
use crate::exit::Failure;
use crate::output::{OutputArgs, print, print_json};
use crate::rights;

#[derive(Args)]
pub(crate) struct MigrateArgs {
    /// Source: a data directory, or etcd://HOST:PORT,HOST:PORT/PREFIX. No server may use the directory; no server may
    /// lead a store in etcd.
    #[arg(long)]
    from: Address,
    /// Target: a data directory, new or empty, or etcd://HOST:PORT,HOST:PORT/PREFIX with an empty prefix.
    #[arg(long)]
    to: Address,
    #[command(flatten)]
    etcd: EtcdArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
pub(crate) struct ReopenArgs {
    /// The store that was closed: a data directory, or etcd://HOST:PORT,HOST:PORT/PREFIX.
    store: Address,
    /// Confirm that no server has used the migrated copy. If one has, both stores would grant the same tokens.
    #[arg(long, required = true)]
    target_unused: bool,
    #[command(flatten)]
    etcd: EtcdArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn migrate(args: &MigrateArgs) -> Result<(), Failure> {
    told(args.output, migrated(args))
}

fn migrated(args: &MigrateArgs) -> Result<(), Failure> {
    rights::private();
    let MigrateArgs { from, to, etcd, .. } = args;
    transfer::migrate(&home(from, etcd), &home(to, etcd)).map_err(|error| error.to_string())?;
    let (from, to) = (from.to_string(), to.to_string());
    if args.output.json {
        return print_json(&json!({"from": from, "to": to, "migrated": true}));
    }
    print(&format!(
        "moved the store of {from} to {to}, with its leases, sessions and tokens\n{from} is closed: no server starts \
         from it. Its history, files and states stay there"
    ))
}

pub(crate) fn reopen(args: &ReopenArgs) -> Result<(), Failure> {
    told(args.output, reopened(args))
}

fn reopened(args: &ReopenArgs) -> Result<(), Failure> {
    rights::private();
    transfer::reopen(&home(&args.store, &args.etcd)).map_err(|error| error.to_string())?;
    let store = args.store.to_string();
    if args.output.json {
        return print_json(&json!({"store": store, "reopened": true}));
    }
    print(&format!("reopened {store}; delete the store it had moved to"))
}

fn home(address: &Address, etcd: &EtcdArgs) -> Home {
    match address.clone() {
        Address::Folder(path) => Home::Folder(path),
        Address::Shared(location) => Home::Shared(etcd.access(location)),
    }
}
