//! Passes the leases that a command runs under to its environment, and reads them in a nested `run`.
//!
//! `run a run a cmd` would wait for itself forever. Before it waits, a nested `run` therefore reads the leases of the
//! outer `run` from its environment. It then checks with the server whether they are still held, because a variable can
//! outlive its lease.

use std::process::Command;

use leasehold::Client;
use leasehold::api::Holder;
use serde::{Deserialize, Serialize};

use super::args::RunArgs;
use super::held::{Held, Lease};
use crate::connection::ConnectionArgs;
use crate::exit::Failure;
use crate::output::plain;

const LEASES: &str = "LEASEHOLD_LEASES";
const OUTER_LEASES: &str = "LEASEHOLD_OUTER_LEASES";

/// A lease as the command's environment describes it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct OuterLease {
    lock_name: String,
    owner_id: String,
    fencing_token: u64,
    lease_id: String,
    url: String,
    /// `None` means the server's default.
    namespace: Option<String>,
}

/// Sets the environment variables of a command that runs under these leases.
pub(super) fn tell(
    command: &mut Command,
    held: &Held,
    connection: &ConnectionArgs,
    passes_api_key: bool,
) {
    let told = told(held, connection);
    if let [only] = &told[..] {
        command.env("LEASEHOLD_LOCK", &only.lock_name);
        command.env("LEASEHOLD_FENCING_TOKEN", only.fencing_token.to_string());
        command.env("LEASEHOLD_LEASE_ID", &only.lease_id);
    } else {
        // The command would mistake the variables of an outer `run` for ours.
        for name in ["LEASEHOLD_LOCK", "LEASEHOLD_FENCING_TOKEN", "LEASEHOLD_LEASE_ID"] {
            command.env_remove(name);
        }
    }
    command.env("LEASEHOLD_OWNER", held.owner());
    set(command, LEASES, &told);
    set(command, OUTER_LEASES, &outer());
    let deadline = held.deadline().since_boot();
    command.env("LEASEHOLD_DEADLINE", format!("{:.3}", deadline.as_secs_f64()));
    connection.server.hand_on(command, passes_api_key);
}

fn set(command: &mut Command, name: &str, leases: &[OuterLease]) {
    match serde_json::to_string(leases) {
        Ok(json) if !leases.is_empty() => command.env(name, json),
        _ => command.env_remove(name),
    };
}

fn told(held: &Held, connection: &ConnectionArgs) -> Vec<OuterLease> {
    let told = |lease: Lease<'_>| OuterLease {
        lock_name: lease.lock_name.into(),
        owner_id: held.owner().into(),
        fencing_token: lease.fencing_token,
        lease_id: lease.lease_id.into(),
        url: connection.server.url.clone(),
        namespace: connection.server.namespace.clone(),
    };
    held.leases().into_iter().map(told).collect()
}

/// Returns an explanation if one of the locks is held by the `run` or script that this process runs in.
pub(super) async fn nested(
    client: &Client,
    locks: &[String],
    args: &RunArgs,
) -> Result<Option<String>, Failure> {
    let is_asked = |told: &OuterLease| {
        let server = &args.connection.server;
        locks.contains(&told.lock_name)
            && told.url == server.url
            && told.namespace == server.namespace
    };
    for told in outer().into_iter().filter(is_asked) {
        let state = client.look(&told.lock_name).await?;
        let is_it = |holder: &&Holder| {
            holder.fencing_token == told.fencing_token && holder.owner_id == told.owner_id
        };
        let Some(holder) = state.holders.iter().find(is_it) else { continue };
        let consequence = match (holder.mode.as_str(), args.is_exclusive()) {
            ("exclusive", _) | (_, true) => "waiting for it here would never end",
            // The lock might be available now. But an exclusive request of another client would queue between the two:
            // we would wait for that client, and it would wait for our outer lease.
            _ => {
                "sharing it again might wait indefinitely behind a client that waits for the first share"
            }
        };
        return Ok(Some(format!(
            "lock {:?} is already held by the `leasehold run` or script that this command runs in (owner {}, \
             token {}); {consequence}",
            plain(&told.lock_name),
            plain(&told.owner_id),
            told.fencing_token
        )));
    }
    Ok(None)
}

/// Returns the leases that this process runs under.
fn outer() -> Vec<OuterLease> {
    let leases = |name| {
        let text = std::env::var(name).ok()?;
        serde_json::from_str::<Vec<OuterLease>>(&text).ok()
    };
    let mut all: Vec<OuterLease> =
        [OUTER_LEASES, LEASES].into_iter().filter_map(leases).flatten().collect();
    all.extend(exported().filter(|told| !all.contains(told)));
    all
}

/// Returns the lease exported by `eval "$(leasehold acquire --env)"`.
fn exported() -> Option<OuterLease> {
    let variable = |name: &str| std::env::var(name).ok();
    Some(OuterLease {
        lock_name: variable("LEASEHOLD_LOCK")?,
        owner_id: variable("LEASEHOLD_OWNER")?,
        fencing_token: variable("LEASEHOLD_FENCING_TOKEN")?.parse().ok()?,
        lease_id: variable("LEASEHOLD_LEASE_ID")?,
        url: variable("LEASEHOLD_URL").unwrap_or_else(|| crate::connection::URL_DEFAULT.into()),
        namespace: variable("LEASEHOLD_NAMESPACE"),
    })
}
