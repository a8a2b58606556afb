//! The lock on a data folder: one folder, one server.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::refused;
use crate::store::Error;

/// Held as long as this process, and no other, uses a data folder. Ends with the process, however it ends.
pub(super) struct DirLock {
    _file: File,
}

impl DirLock {
    /// Makes the folder if it is missing and locks it.
    pub(super) fn take(data: &Path) -> Result<Self, Error> {
        let why = |error: std::io::Error| refused(format!("{}: {error}", data.display()));
        // Lease ids are in there, and they are proofs.
        DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(why)?;
        let path = data.join("lock");
        let mut options = OpenOptions::new();
        let mut file =
            options.create(true).truncate(false).read(true).write(true).open(path).map_err(why)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut pid = String::new();
            file.read_to_string(&mut pid).map_err(why)?;
            let who =
                if pid.is_empty() { "another process".into() } else { format!("process {pid}") };
            return Err(refused(format!("{} is in use by {who}", data.display())));
        }
        file.set_len(0).map_err(why)?;
        file.rewind().map_err(why)?;
        write!(file, "{}", std::process::id()).map_err(why)?;
        Ok(Self { _file: file })
    }
}
