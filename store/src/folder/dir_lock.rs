//! Makes sure that only one server uses a data directory.
//!
//! The decisive lock is an operating system lock on the journal file itself, so it survives if an operator copies,
//! renames or empties the directory. It ends with the process, however that ends. SQLite's own locks on the same file
//! end when *any* descriptor of the file in this process is closed. So our descriptor is opened before SQLite opens the
//! file and closed after SQLite closes it. A file that this process uses is never opened a second time, not even to
//! check whether it is in use.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use leasehold_base::sync::lock;

use super::identity::{Identity, Key};
use super::locked::Locked;
use super::{refused, trouble};
use crate::Error;

/// The name of the lock file, which contains the process id. Earlier versions lock only this file, so it also keeps
/// them out.
pub(super) const LOCK: &str = "lock";

/// The journals that this process has open.
static OPEN: Mutex<BTreeSet<Key>> = Mutex::new(BTreeSet::new());

/// The right to access a data directory and to create a store there.
pub(crate) struct LockFile {
    folder: PathBuf,
    _lock: Locked,
}

impl LockFile {
    /// Locks the lock file, so that no other server or command can take it.
    pub(crate) fn take(folder: &Path) -> Result<Self, Error> {
        let path = lock_path(folder);
        let why = |error: io::Error| trouble(&path, &error);
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).read(true).write(true).mode(0o600);
        let lock = Locked::alone(options.open(&path).map_err(why)?).map_err(why)?;
        let mut lock = lock.ok_or_else(|| in_use(folder))?;
        let file = lock.file();
        // Overwrites the content: on a full disk there might be no free block for a truncated file.
        let pid = std::process::id().to_string();
        file.write_all_at(pid.as_bytes(), 0).map_err(why)?;
        file.set_len(pid.len() as u64).map_err(why)?;
        Ok(Self { folder: folder.into(), _lock: lock })
    }

    /// Locks the store whose journal this is, before SQLite opens it.
    pub(crate) fn lock(self, journal: &Path) -> Result<DirLock, Error> {
        let Some(hold) = Hold::take(&self.folder, journal, Sharing::Alone)? else {
            // Either the lock file was deleted while a server runs, or the process is not a server.
            return Err(refused(format!("{} is in use by another process", self.folder.display())));
        };
        Ok(DirLock { _hold: hold, _file: self })
    }
}

/// Proves that only this process uses a data directory.
pub(crate) struct DirLock {
    _hold: Hold,
    _file: LockFile,
}

/// Which other processes may open the journal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Alone,
    Readers,
}

/// Proves that no server uses a store. Writes nothing, so that it works on a read-only file system.
pub(crate) struct Hold {
    /// `None` only while this value is dropped.
    journal: Option<Locked>,
    key: Key,
}

impl Hold {
    /// Takes a shared lock for a reader. Returns `None` if a server uses the store.
    pub(crate) fn to_read(folder: &Path, journal: &Path) -> Result<Option<Self>, Error> {
        Self::take(folder, journal, Sharing::Readers)
    }

    fn take(folder: &Path, journal: &Path, sharing: Sharing) -> Result<Option<Self>, Error> {
        let why = |error: io::Error| trouble(journal, &error);
        let identity = Identity::of(journal).map_err(why)?;
        let mut open = open_here();
        if open.contains(&identity.key()) {
            return Ok(None);
        }
        let is_alone = sharing == Sharing::Alone;
        let file = OpenOptions::new().read(true).write(is_alone).open(journal).map_err(why)?;
        let locked = match sharing {
            Sharing::Alone => Locked::alone(file),
            Sharing::Readers => Locked::shared(file),
        };
        let Some(locked) = locked.map_err(why)? else { return Ok(None) };
        if !identity.is_there() {
            return Err(refused(format!(
                "{} was replaced while it was opened; does another process use {}?",
                journal.display(),
                folder.display()
            )));
        }
        open.insert(identity.key());
        Ok(Some(Self { journal: Some(locked), key: identity.key() }))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut open = open_here();
        // The file is closed before any other thread can open it again.
        drop(self.journal.take());
        open.remove(&self.key);
    }
}

/// Returns the error that names the process that uses a data directory, if it is known.
pub(crate) fn in_use(folder: &Path) -> Error {
    let who = user(folder).map_or_else(
        || "another process, such as a check or a backup".into(),
        |pid| format!("process {pid}"),
    );
    refused(format!("{} is in use by {who}", folder.display()))
}

/// Returns the id of the process that uses a data directory, if one does. The id in the lock file counts only while the
/// file is locked; otherwise it belongs to an earlier process.
pub fn user(folder: &Path) -> Option<String> {
    let path = lock_path(folder);
    let is_locked = Locked::shared(File::open(&path).ok()?).ok()?.is_none();
    let pid = std::fs::read_to_string(&path).ok().filter(|_| is_locked)?;
    (!pid.is_empty()).then_some(pid)
}

/// Returns the path of the lock file. A process that uses the data directory has it open.
pub fn lock_path(folder: &Path) -> PathBuf {
    folder.join(LOCK)
}

fn open_here() -> MutexGuard<'static, BTreeSet<Key>> {
    lock(&OPEN)
}
