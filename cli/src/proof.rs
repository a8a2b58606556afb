//! The proof that a lease is ours, from flags or from the variables that `acquire --env` prints.

use clap::Args;

use crate::owner::OwnerArgs;

/// The lease to renew or release.
#[derive(Args, Clone, Debug)]
pub(crate) struct ProofArgs {
    /// Name of the lock.
    #[arg(env = "LEASEHOLD_LOCK")]
    pub(crate) lock: String,
    /// Lease id that `acquire` printed. It is a secret: other users can read flags in the process list, so prefer the
    /// variable.
    #[arg(long, env = "LEASEHOLD_LEASE_ID", hide_env_values = true)]
    pub(crate) lease_id: String,
    /// Fencing token that `acquire` printed.
    #[arg(long, env = "LEASEHOLD_FENCING_TOKEN", value_name = "N")]
    pub(crate) token: u64,
    /// Request id; repeating a request with the same id is safe [default: random]
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    #[command(flatten)]
    pub(crate) owner: OwnerArgs,
}

/// Returns a random request id.
pub(crate) fn request_id() -> String {
    format!("{:032x}", fastrand::u128(..))
}
