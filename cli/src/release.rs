//! `leasehold release`: releases a lease.

use clap::Args;
use leasehold::api::ReleaseRequest;

use crate::ask::{ask, persist};
use crate::connection::ServerArgs;
use crate::exit::Failure;
use crate::output::{OutputArgs, plain, print, print_json};
use crate::proof::{ProofArgs, request_id};

const EXAMPLES: &str = "\
Examples:
  leasehold release                      # after eval of `leasehold acquire --env`
  leasehold release nightly --lease-id 1.b48e6b1a… --token 1 --owner worker-1

Exit status: 0 the lease is released; 75 it had ended before, and another client might have held the lock since then;
68 the server cannot be reached.";

/// Release a lease.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    proof: ProofArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn release(args: &ReleaseArgs) -> Result<(), Failure> {
    let proof = &args.proof;
    let request = ReleaseRequest {
        owner_id: proof.owner.name(),
        lease_id: proof.lease_id.clone(),
        fencing_token: proof.token,
        request_id: Some(proof.request_id.clone().unwrap_or_else(request_id)),
    };
    ask(args.output, async {
        let client = args.server.reach().await?;
        let released = persist(|| client.release(&proof.lock, &request)).await?;
        if args.output.json {
            return print_json(&released);
        }
        print(&format!("{} is released", plain(&proof.lock)))
    })
}
