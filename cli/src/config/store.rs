//! Settings of the embedded store: the journal, the history and disk space.

use clap::Args as ClapArgs;
use leasehold_store::history::Bounds;
use leasehold_store::sqlite::Space;

use crate::duration::DurationArg;

#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Data")]
pub(super) struct StoreArgs {
    /// How often the journal is folded into the tables.
    #[arg(long, env = "LEASEHOLD_FOLD_INTERVAL", default_value = "5s")]
    pub(super) fold_interval: DurationArg,
    /// How long the history of locks is kept, for `leasehold history`.
    #[arg(long, env = "LEASEHOLD_HISTORY_AGE_MAX", default_value = "30d")]
    pub(super) history_age_max: DurationArg,
    /// Maximum bytes of history on disk.
    #[arg(long, env = "LEASEHOLD_HISTORY_BYTES_MAX", default_value_t = 256 << 20)]
    pub(super) history_bytes_max: u64,
    /// Bytes of disk space that the server reserves, so that renewals, releases and expiries continue on a full disk.
    /// 0: none.
    #[arg(long, env = "LEASEHOLD_DISK_RESERVE", default_value_t = Space::default().reserve)]
    pub(super) disk_reserve: u64,
    /// Minimum free bytes on the disk of the data directory; below it, acquires are refused. 0: no minimum.
    #[arg(long, env = "LEASEHOLD_DISK_FREE_MIN", default_value_t = Space::default().free_min)]
    pub(super) disk_free_min: u64,
}

impl StoreArgs {
    /// Returns the limits of the history.
    pub(super) fn history(&self) -> Bounds {
        Bounds { age_max: self.history_age_max.0, bytes_max: self.history_bytes_max }
    }

    /// Returns the reserved disk space and the minimum of free space.
    pub(super) fn space(&self) -> Space {
        Space { reserve: self.disk_reserve, free_min: self.disk_free_min, ..Space::default() }
    }
}
