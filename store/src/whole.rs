//! All of a store as of one record, wherever it is kept: what backups, restores and moves pass on.

use leasehold_base::clock::Moment;
use leasehold_core::Machine;
#[cfg(feature = "etcd")]
use leasehold_core::Restore;

use super::Place;

/// A store at one record.
pub struct Whole {
    /// Never changes.
    pub store_id: [u8; 16],
    /// Another one after a restore or a move: what clients remember of events is of one of them.
    pub generation: u64,
    /// How often it was restored from a backup.
    pub n_restores: u64,
    /// The last record.
    pub place: Place,
    /// Its epoch.
    pub epoch: u64,
    /// When it was written.
    pub last: Option<Moment>,
    /// The state.
    pub machine: Machine,
}

impl Whole {
    /// Makes a backup what it is to be as a store: nothing is held, and nothing that was handed out since the backup
    /// will be handed out again. The store it takes the place of was restored so many times: each of them raised what
    /// is handed out, and an older backup does not know of it.
    #[cfg(feature = "etcd")]
    pub(crate) fn restore(&mut self, n_restores: u64) {
        let n_restores = n_restores.max(self.n_restores) + 1;
        for _ in self.n_restores..n_restores {
            self.machine.apply(self.machine.now(), Restore);
        }
        self.n_restores = n_restores;
    }
}
