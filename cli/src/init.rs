//! `leasehold init`: creates the store of a cluster.

use clap::Args;
use leasehold_server::cluster::{self, Location};
use serde_json::json;

use crate::config::EtcdArgs;
use crate::exit::Failure;
use crate::output::{OutputArgs, print, print_json};

#[derive(Args)]
pub(crate) struct InitArgs {
    /// Store to create: etcd://HOST:PORT,HOST:PORT/PREFIX; nothing must exist under the prefix yet.
    #[arg(long, env = "LEASEHOLD_STORE", hide_env_values = true)]
    store: Location,
    #[command(flatten)]
    etcd: EtcdArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn init(args: &InitArgs) -> Result<(), Failure> {
    let store = args.store.to_string();
    cluster::init(&args.etcd.access(args.store.clone())).map_err(|error| error.to_string())?;
    if args.output.json {
        return print_json(&json!({"created": true, "store": store}));
    }
    print(&format!("created a store at {store}"))
}
