//! The folder of a server whose store is elsewhere: what it remembers by itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{LockFile, is_store_file, make_private, refused, trouble};
use crate::store::Error;

/// The file that tells two servers of one name apart.
const INSTANCE: &str = "instance";

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
        Ok(Self { path: path.into(), _lock: lock })
    }

    /// Drawn when it is first asked for, and the same from then on: two servers that are called the same differ by it.
    pub(crate) fn instance(&self) -> Result<String, Error> {
        let path = self.path.join(INSTANCE);
        match fs::read_to_string(&path) {
            Ok(text) if text.trim().len() == 32 => return Ok(text.trim().into()),
            Ok(_) => {
                let name = path.display();
                return Err(refused(format!(
                    "{name}: is not what a server writes there; delete it"
                )));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(trouble(&path, &error)),
        }
        let drawn = u128::from_le_bytes(crate::random::bytes());
        let instance = format!("{drawn:032x}");
        let unfinished = self.path.join("instance.new");
        let written = fs::write(&unfinished, format!("{instance}\n"));
        written
            .and_then(|()| fs::rename(&unfinished, &path))
            .map_err(|error| trouble(&path, &error))?;
        Ok(instance)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
