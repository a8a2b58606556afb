//! Settings of Git LFS.

use clap::Args as ClapArgs;
use leasehold_server::dialect::lfs;

use crate::duration::DurationArg;

#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Git LFS")]
pub(super) struct LfsArgs {
    /// The namespace of the locks of Git LFS.
    #[arg(long, env = "LEASEHOLD_LFS_NAMESPACE", default_value = "lfs")]
    pub(super) lfs_namespace: String,
    /// Largest object, in bytes.
    #[arg(long, env = "LEASEHOLD_LFS_OBJECT_BYTES_MAX", default_value_t = 16 << 30,
          value_parser = clap::value_parser!(u64).range(1..))]
    lfs_object_bytes_max: u64,
    /// For how long after a batch its transfers may begin.
    #[arg(long, env = "LEASEHOLD_LFS_TRANSFER_TTL", default_value = "1h")]
    lfs_transfer_ttl: DurationArg,
}

impl LfsArgs {
    /// Says what would not work.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.lfs_transfer_ttl.0.as_secs() {
            0 => Err("--lfs-transfer-ttl: must be at least 1s".into()),
            _ => Ok(()),
        }
    }

    pub(super) fn options(&self) -> lfs::Options {
        lfs::Options {
            namespace: self.lfs_namespace.as_str().into(),
            object_bytes_max: self.lfs_object_bytes_max,
            transfer_ttl: self.lfs_transfer_ttl.span(),
        }
    }
}
