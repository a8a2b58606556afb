//! One data folder, one server.
//!
//! What counts is a lock of the system on the journal itself: whoever copies, renames or empties the folder cannot
//! take it away. It ends with the process, however that ends. SQLite has locks on the same file that end when *any*
//! descriptor of it in the process is closed, so ours is opened before SQLite and closed after it, and a file this
//! process uses is never opened a second time, not even to find that out.

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

/// Says who uses the folder. Earlier versions relied on it, and are kept out by it.
pub(super) const LOCK: &str = "lock";

/// The journals this process has open.
static OPEN: Mutex<BTreeSet<Key>> = Mutex::new(BTreeSet::new());

/// The right to look into a folder and to make a store there.
pub(crate) struct LockFile {
    folder: PathBuf,
    _lock: Locked,
}

impl LockFile {
    /// Keeps everybody else out who asks at the door.
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
            // Its lock file is gone, or it is no server.
            return Err(refused(format!("{} is in use by another process", self.folder.display())));
        };
        Ok(DirLock { _hold: hold, _file: self })
    }
}

/// That this process, and no other, uses a data folder.
pub(crate) struct DirLock {
    _hold: Hold,
    _file: LockFile,
}

/// Who else may have the journal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Alone,
    Readers,
}

/// That no server uses a store. Writes nothing, so that it works where nothing can be written.
pub(crate) struct Hold {
    /// Only ever gone while this is dropped.
    journal: Option<Locked>,
    key: Key,
}

impl Hold {
    /// For somebody who reads; `None`: a server uses it.
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
                "{} was replaced while it was opened: is another process at work in {}?",
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
        // Closed before anybody here can open it again.
        drop(self.journal.take());
        open.remove(&self.key);
    }
}

/// Says who uses the folder, if that is known.
pub(crate) fn in_use(folder: &Path) -> Error {
    let who = user(folder).map_or_else(
        || "another process, such as a check or a backup".into(),
        |pid| format!("process {pid}"),
    );
    refused(format!("{} is in use by {who}", folder.display()))
}

/// The number of the process that uses a folder, if one does. The number in the lock file is of whoever has it locked;
/// otherwise it is an old one.
pub fn user(folder: &Path) -> Option<String> {
    let path = lock_path(folder);
    let is_locked = Locked::shared(File::open(&path).ok()?).ok()?.is_none();
    let pid = std::fs::read_to_string(&path).ok().filter(|_| is_locked)?;
    (!pid.is_empty()).then_some(pid)
}

/// The file that whoever uses a folder has open.
pub fn lock_path(folder: &Path) -> PathBuf {
    folder.join(LOCK)
}

fn open_here() -> MutexGuard<'static, BTreeSet<Key>> {
    lock(&OPEN)
}
