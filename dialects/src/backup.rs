//! Backups that an operator asks for.

use std::time::Duration;

use leasehold_auth::governed;
use leasehold_store as store;

/// A finished backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// The name of the backup in the backup directory.
    pub name: String,
    /// Its size in bytes.
    pub n_bytes: u64,
}

/// A request for a backup.
pub struct TakeBackup;

governed! {
    TakeBackup: |_asked, caller| caller.check_admin();
}

/// Why a backup failed.
#[derive(Debug)]
pub enum Error {
    /// Another backup is in progress.
    Running,
    /// The backup could not be written.
    Failed(store::Error),
}

/// Takes backups of the server.
pub trait TakesBackups: Send + Sync {
    /// Takes a backup. It blocks.
    fn take(&self) -> Result<Taken, Error>;

    /// Returns the age of the latest backup.
    fn age(&self) -> Duration;

    /// Returns how many backups failed.
    fn n_failures(&self) -> u64;
}
