//! `leasehold renew`: extends a lease.

use std::time::Duration;

use clap::Args;
use leasehold::api::RenewRequest;

use crate::ask::{ask, persist};
use crate::connection::ServerArgs;
use crate::duration::{DurationArg, glance, lasting};
use crate::exit::Failure;
use crate::output::{OutputArgs, plain, print, print_json, warn_short};
use crate::proof::ProofArgs;

const EXAMPLES: &str = "\
Examples:
  leasehold renew --ttl 10m              # after eval of `leasehold acquire --env`
  leasehold renew nightly --lease-id 1.b48e6b1a… --token 1 --owner worker-1 --ttl 10m

Exit status: 0 the lease is renewed; 75 it has ended: stop working; 68 the server cannot be reached.";

/// Renew a lease.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RenewArgs {
    #[command(flatten)]
    proof: ProofArgs,
    /// Minimum time left on the lease after the renewal.
    #[arg(long, default_value = "30s", value_parser = lasting)]
    ttl: DurationArg,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn renew(args: &RenewArgs) -> Result<(), Failure> {
    let proof = &args.proof;
    let request = RenewRequest {
        owner_id: proof.owner.name(),
        lease_id: proof.lease_id.clone(),
        fencing_token: proof.token,
        extend_by_ms: args.ttl.millis(),
        request_id: proof.request_id.clone(),
    };
    ask(args.output, async {
        let client = args.server.reach().await?;
        let renewed = persist(|| client.renew(&proof.lock, &request)).await?;
        warn_short(&client, args.ttl.0, Duration::ZERO);
        if args.output.json {
            return print_json(&renewed);
        }
        let left = renewed.expires_in_ms.map(|ms| glance(Duration::from_millis(ms)));
        let lock = plain(&proof.lock);
        print(&format!("{lock} is renewed for {}", left.as_deref().unwrap_or("ever")))
    })
}
