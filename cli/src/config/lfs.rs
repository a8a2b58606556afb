//! Settings of Git LFS.

use std::time::Duration;

use clap::Args as ClapArgs;
use leasehold_server::dialect::lfs;

use crate::duration::DurationArg;

/// The minimum duration of a transfer. git-lfs treats a transfer as expired if less than 5 s are left, and it needs
/// time to go through a batch.
const TRANSFER_TTL_MIN: Duration = Duration::from_secs(10);

#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Git LFS")]
pub(super) struct LfsArgs {
    /// The namespace of the locks of Git LFS.
    #[arg(long, env = "LEASEHOLD_LFS_NAMESPACE", default_value = "lfs")]
    pub(super) lfs_namespace: String,
    /// Maximum size of an object, in bytes.
    #[arg(long, env = "LEASEHOLD_LFS_OBJECT_BYTES_MAX", default_value_t = 16 << 30,
          value_parser = clap::value_parser!(u64).range(1..))]
    lfs_object_bytes_max: u64,
    /// Time after a batch request in which its transfers can begin, at least 10s.
    #[arg(long, env = "LEASEHOLD_LFS_TRANSFER_TTL", default_value = "1h")]
    lfs_transfer_ttl: DurationArg,
}

impl LfsArgs {
    /// Checks the minimum duration of a transfer.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.lfs_transfer_ttl.0 < TRANSFER_TTL_MIN {
            return Err("--lfs-transfer-ttl: must be at least 10s: git-lfs does not start a transfer with less than 5s \
                left"
                .into());
        }
        Ok(())
    }

    pub(super) fn options(&self) -> lfs::Options {
        lfs::Options {
            namespace: self.lfs_namespace.as_str().into(),
            object_bytes_max: self.lfs_object_bytes_max,
            transfer_ttl: self.lfs_transfer_ttl.span(),
        }
    }
}
