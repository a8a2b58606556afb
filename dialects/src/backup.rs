//! Backups that an operator asks for.

use std::time::Duration;

use leasehold_auth::governed;
use leasehold_store as store;

/// A backup that was taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Its name in the folder of backups.
    pub name: String,
    /// How large it is.
    pub n_bytes: u64,
}

/// A backup is asked for by somebody.
pub struct TakeBackup;

governed! {
    TakeBackup: |_asked, caller| caller.check_admin();
}

/// Why there is none.
#[derive(Debug)]
pub enum Error {
    /// Another one is being taken.
    Running,
    /// It could not be made.
    Failed(store::Error),
}

/// Takes backups of the server.
pub trait TakesBackups: Send + Sync {
    /// Takes one. It blocks.
    fn take(&self) -> Result<Taken, Error>;

    /// Returns how long ago the latest one was taken.
    fn age(&self) -> Duration;

    /// Returns how many failed.
    fn n_failures(&self) -> u64;
}
