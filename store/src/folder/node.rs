//! The data directory of a server in a cluster: the state that the server stores locally.

use std::fs;
use std::path::{Path, PathBuf};

use super::{LockFile, check_private, is_store_file, make_private, refused, trouble};
use crate::Error;

/// The file with what a server remembers about the shared store.
pub(crate) const MEMORY: &str = "node.json";

/// Fails if the data directory belongs to a server in a cluster. Without this check, an operator who forgot `--store`
/// would start a new, embedded store there, which grants the same tokens again.
pub(crate) fn check_own(path: &Path) -> Result<(), Error> {
    if !path.join(MEMORY).exists() {
        return Ok(());
    }
    Err(refused(format!(
        "{} belongs to a server of a cluster ({MEMORY}); name the store (--store etcd://...), or use another directory",
        path.display()
    )))
}

/// A data directory that only this process uses while this value lives.
pub struct NodeFolder {
    path: PathBuf,
    _lock: LockFile,
}

impl NodeFolder {
    /// Locks the data directory, and creates it if necessary. Fails if the directory contains an embedded store,
    /// because it would be ignored without notice.
    pub fn take(path: &Path) -> Result<Self, Error> {
        make_private(path)?;
        let lock = LockFile::take(path)?;
        check_no_store(path)?;
        Ok(Self { path: path.into(), _lock: lock })
    }

    /// Returns why an unused data directory could not be taken. Changes nothing.
    pub fn check(path: &Path) -> Result<(), Error> {
        check_private(path)?;
        if path.exists() { check_no_store(path) } else { Ok(()) }
    }

    /// Returns the path of the data directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn check_no_store(path: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(path).map_err(|error| trouble(path, &error))? {
        let name = entry.map_err(|error| trouble(path, &error))?.file_name();
        let name = name.to_string_lossy();
        if is_store_file(&name) {
            return Err(refused(format!(
                "{} contains a store ({name}); a server with --store needs another directory",
                path.display()
            )));
        }
    }
    Ok(())
}
