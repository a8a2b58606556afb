//! The folder of a server whose store is elsewhere: what it remembers by itself.

use std::fs;
use std::path::{Path, PathBuf};

use super::{LockFile, check_private, is_store_file, make_private, refused, trouble};
use crate::Error;

/// What a server remembers of a store elsewhere.
pub(crate) const MEMORY: &str = "node.json";

/// Fails if a folder is that of a server whose store is elsewhere. A store of its own would begin anew there, with
/// tokens that were granted long ago, only because somebody forgot to say where the store is.
pub(crate) fn check_own(path: &Path) -> Result<(), Error> {
    if !path.join(MEMORY).exists() {
        return Ok(());
    }
    Err(refused(format!(
        "{} belongs to a server that shares its store ({MEMORY}): say where that is (--store etcd://...), or use \
         another folder",
        path.display()
    )))
}

/// A folder that this process, and no other, uses as long as this lives.
pub struct NodeFolder {
    path: PathBuf,
    _lock: LockFile,
}

impl NodeFolder {
    /// Takes or makes it. A folder with a store of its own is refused: it would not be used, and nobody would notice.
    pub fn take(path: &Path) -> Result<Self, Error> {
        make_private(path)?;
        let lock = LockFile::take(path)?;
        check_no_store(path)?;
        Ok(Self { path: path.into(), _lock: lock })
    }

    /// Says why a folder that nobody uses could not be taken. Leaves everything as it is.
    pub fn check(path: &Path) -> Result<(), Error> {
        check_private(path)?;
        if path.exists() { check_no_store(path) } else { Ok(()) }
    }

    /// Where it is.
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
                "{} has a store of its own ({name}); a server with --store needs another folder",
                path.display()
            )));
        }
    }
    Ok(())
}
