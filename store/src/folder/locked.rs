//! A file that this process has locked.

use std::fs::File;
use std::io;

use rustix::fs::{FlockOperation, flock};

/// Unlocked when dropped. Closing the file is not enough: a child that was forked meanwhile has it open until it
/// becomes another program.
pub(super) struct Locked(File);

impl Locked {
    /// Locks a file for this process alone; `None`: somebody else has it.
    pub(super) fn alone(file: File) -> io::Result<Option<Self>> {
        Self::by(file, FlockOperation::NonBlockingLockExclusive)
    }

    /// Locks a file for this process and others that do the same.
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

    /// The file.
    pub(super) fn file(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // If it fails, closing it does the same a little later.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
