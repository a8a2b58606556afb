//! A whole store as of one record, independent of where it is stored: the data that backups, restores and migrations
//! transfer.

use leasehold_base::clock::Moment;
use leasehold_core::{Machine, Restore};

use super::Place;

/// A whole store as of one record.
pub struct Whole {
    /// The id of the store. It never changes.
    pub store_id: [u8; 16],
    /// Changes with a restore or a migration. Event cursors of clients are valid in one generation only.
    pub generation: u64,
    /// How often it was restored from a backup.
    pub n_restores: u64,
    /// The last record.
    pub place: Place,
    /// The epoch of the last record.
    pub epoch: u64,
    /// When the last record was written.
    pub last: Option<Moment>,
    /// The state.
    pub machine: Machine,
}

impl Whole {
    /// Turns a backup into the state to restore: all leases have ended, and no token or number issued since the backup
    /// is issued again. `n_restores` is how often the replaced store was restored. Each restore raised the numbers, and
    /// an older backup does not contain these raises.
    pub(crate) fn restore(&mut self, n_restores: u64) {
        let n_restores = n_restores.max(self.n_restores) + 1;
        for _ in self.n_restores..n_restores {
            self.machine.apply(self.machine.now(), Restore);
        }
        self.n_restores = n_restores;
    }
}
