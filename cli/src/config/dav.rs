//! Settings of WebDAV.

use clap::Args as ClapArgs;
use leasehold_core::Limits;
use leasehold_server::dialect::dav;

use crate::duration::DurationArg;

#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "WebDAV")]
pub(super) struct DavArgs {
    /// Minimum duration of a WebDAV lock, even if a client requests less.
    #[arg(long, env = "LEASEHOLD_DAV_LOCK_TTL_MIN", default_value = "1m")]
    dav_lock_ttl_min: DurationArg,
    /// Maximum files and folders that one COPY copies, and that the server checks before it moves or removes a folder.
    #[arg(long, env = "LEASEHOLD_DAV_TREE_MAX", default_value_t = 100_000,
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    dav_tree_max: u32,
    /// Maximum bytes of the properties that clients set for one file or folder. The file system can have a lower limit.
    #[arg(long, env = "LEASEHOLD_DAV_PROPERTIES_BYTES_MAX", default_value_t = 32 * 1024,
          value_parser = clap::value_parser!(u32).range(0..=65_536))]
    dav_properties_bytes_max: u32,
}

impl DavArgs {
    /// Checks the settings against the limits.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), String> {
        let is_default = self.dav_lock_ttl_min.span() == dav::Options::default().lock_ttl_min;
        if self.dav_lock_ttl_min.span() > limits.ttl_max && !is_default {
            return Err("--dav-lock-ttl-min is longer than --ttl-max".into());
        }
        Ok(())
    }

    pub(super) fn options(&self) -> dav::Options {
        dav::Options {
            lock_ttl_min: self.dav_lock_ttl_min.span(),
            tree_max: self.dav_tree_max as usize,
            properties_bytes_max: self.dav_properties_bytes_max as usize,
        }
    }
}
