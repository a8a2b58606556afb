//! `leasehold revoke`: ends the leases of other owners.

use clap::Args;
use leasehold::api::RevokeAllRequest;

use crate::ask::ask;
use crate::connection::ServerArgs;
use crate::exit::{Failure, USAGE};
use crate::output::{OutputArgs, plain, print, print_json};

const EXAMPLES: &str = "\
Examples:
  leasehold revoke nightly --reason 'the host is gone'
  leasehold revoke --owner host-7 --reason 'it died' --dry-run

`leasehold run` ends its command immediately. Other holders notice with their next renewal and can write until then,
so the protected resource must reject their token. The next waiter gets the lock immediately.

Exit status: 0 the lock is no longer held, or was not held; 68 the server cannot be reached, or did not respond: check
the lock before you try again, because another client might hold it by then.";

/// Revoke the leases of all holders of a lock.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RevokeArgs {
    /// Name of the lock.
    #[arg(required_unless_present_any = ["owner", "session", "principal"])]
    lock: Option<String>,
    /// Revoke everything this owner holds or waits for, in all namespaces.
    #[arg(long, conflicts_with_all = ["lock", "session", "principal"])]
    owner: Option<String>,
    /// Revoke all leases of the session with this number.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["lock", "principal"])]
    session: Option<u64>,
    /// Revoke all leases of this principal, under any owner id.
    #[arg(long, conflicts_with = "lock")]
    principal: Option<String>,
    /// Only show what would be revoked.
    #[arg(long, conflicts_with = "lock")]
    dry_run: bool,
    /// Reason; it is logged and sent to all watchers.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn revoke(args: &RevokeArgs) -> Result<(), Failure> {
    ask(args.output, async {
        let Some(lock) = &args.lock else { return revoke_all(args).await };
        // Sent only once: a retry might revoke the lease of the next holder.
        let revoked = args.server.reach().await?.revoke(lock, &args.reason).await?;
        if args.output.json {
            return print_json(&revoked);
        }
        let lock = plain(lock);
        if revoked.revoked.is_empty() {
            return print(&format!("{lock} was not held"));
        }
        let lines = revoked.revoked.iter().map(|lease| {
            format!("revoked {lock} from {}, token {}", plain(&lease.owner_id), lease.fencing_token)
        });
        print(&lines.collect::<Vec<_>>().join("\n"))
    })
}

async fn revoke_all(args: &RevokeArgs) -> Result<(), Failure> {
    if args.server.namespace.is_some() {
        let why = "--owner, --session and --principal end leases in every namespace; do not set --namespace or \
            LEASEHOLD_NAMESPACE";
        return Err(Failure::new(USAGE, why));
    }
    let request = RevokeAllRequest {
        owner: args.owner.clone(),
        session: args.session,
        principal: args.principal.clone(),
        reason: args.reason.clone(),
        dry_run: args.dry_run,
    };
    let revoked = args.server.reach().await?.revoke_all(&request).await?;
    if args.output.json {
        return print_json(&revoked);
    }
    let lines = revoked.revoked.iter().map(|lease| {
        let lock = format!("{}/{}", plain(&lease.namespace), plain(&lease.lock_name));
        let owner = plain(&lease.owner_id);
        match (args.dry_run, lease.waiting) {
            (false, false) => format!("revoked {lock} from {owner}"),
            (true, false) => format!("would revoke {lock} from {owner}"),
            (false, true) => format!("ended the wait of {owner} for {lock}"),
            (true, true) => format!("would end the wait of {owner} for {lock}"),
        }
    });
    let lines: Vec<_> = lines.chain([format!("{} leases", revoked.n_revoked)]).collect();
    print(&lines.join("\n"))
}
