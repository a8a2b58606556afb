//! `leasehold revoke`: taking a lock away from whoever has it.

use clap::Args;

use crate::ask::ask;
use crate::connection::ServerArgs;
use crate::exit::Failure;
use crate::output::{OutputArgs, plain, print, print_json};

const EXAMPLES: &str = "\
Example:
  leasehold revoke nightly --reason 'the host is gone'

Whoever had the lock learns of it with the next renewal, and may write until then: what the lock protects has to
refuse its token. The next in the queue has the lock at once.

Exit status: 0 nobody has it any more, or nobody had; 68 the server cannot be reached, or did not answer: look
before you try again, somebody else may have the lock by then.";

/// Take a lock away from all who have it.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RevokeArgs {
    /// The lock's name.
    lock: String,
    /// Why: it goes to the log and to whoever watches.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn revoke(args: &RevokeArgs) -> Result<(), Failure> {
    ask(args.output, async {
        // Asked once: a second time would take it away from the next one.
        let revoked = args.server.client()?.revoke(&args.lock, &args.reason).await?;
        if args.output.json {
            return print_json(&revoked);
        }
        let lock = plain(&args.lock);
        if revoked.revoked.is_empty() {
            return print(&format!("nobody had {lock}"));
        }
        let lines = revoked.revoked.iter().map(|lease| {
            format!(
                "{lock} is taken from {}, token {}",
                plain(&lease.owner_id),
                lease.fencing_token
            )
        });
        print(&lines.collect::<Vec<_>>().join("\n"))
    })
}
