//! A file that this process has locked.

use std::fs::File;
use std::io;

use rustix::fs::{FlockOperation, flock};

/// A locked file, which is unlocked when this value is dropped. Closing the file is not enough: a child process forked
/// in the meantime keeps it open until it runs another program.
pub(super) struct Locked(File);

impl Locked {
    /// Locks a file exclusively. Returns `None` if another process has locked it.
    pub(super) fn alone(file: File) -> io::Result<Option<Self>> {
        Self::by(file, FlockOperation::NonBlockingLockExclusive)
    }

    /// Locks a file in shared mode, along with other processes that do the same.
    pub(super) fn shared(file: File) -> io::Result<Option<Self>> {
        Self::by(file, FlockOperation::NonBlockingLockShared)
    }

    fn by(file: File, operation: FlockOperation) -> io::Result<Option<Self>> {
        match flock(&file, operation) {
            Ok(()) => Ok(Some(Self(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn file(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // If unlocking fails, closing the file unlocks it a little later.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
