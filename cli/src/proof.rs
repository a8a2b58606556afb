//! What shows that a lease is ours: from flags, or from the variables that `acquire --env` prints.

use clap::Args;

use crate::owner::OwnerArgs;

/// The lease to renew or give back.
#[derive(Args, Clone, Debug)]
pub(crate) struct ProofArgs {
    /// The lock's name.
    #[arg(env = "LEASEHOLD_LOCK")]
    pub(crate) lock: String,
    /// As `acquire` gave it. Whoever lists processes sees flags: the variable is the better place for a secret.
    #[arg(long, env = "LEASEHOLD_LEASE_ID", hide_env_values = true)]
    pub(crate) lease_id: String,
    /// The fencing token, as `acquire` gave it.
    #[arg(long, env = "LEASEHOLD_FENCING_TOKEN", value_name = "N")]
    pub(crate) token: u64,
    /// Repeating a request with its id repeats the answer, not the effect; by chance if left out.
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    #[command(flatten)]
    pub(crate) owner: OwnerArgs,
}

/// An id for one request.
pub(crate) fn request_id() -> String {
    format!("{:032x}", fastrand::u128(..))
}
