//! Is a file still what its path leads to?

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Stat, fstat, stat};

/// Which file a path led to when it was opened.
pub(crate) struct Identity {
    /// As the system wants it, because this is asked with every record.
    path: CString,
    key: Key,
}

/// Device and inode: two open files are one if these are the same.
pub(super) type Key = (u64, u64);

impl Identity {
    /// Of the file at this path now.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        Ok(Self { key: key_at(&path)?, path })
    }

    /// Whether this is the file the path leads to.
    pub(super) fn is_of(path: &Path, file: &File) -> bool {
        let opened = fstat(file).map(|stat| key(&stat));
        opened.is_ok_and(|opened| stat(path).is_ok_and(|found| key(&found) == opened))
    }

    /// Whether the path leads to the same file still. One system call.
    pub(crate) fn is_there(&self) -> bool {
        key_at(&self.path).is_ok_and(|found| found == self.key)
    }

    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// What to say if it does not.
    pub(crate) fn lost(&self) -> String {
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(self.path.as_bytes()));
        format!(
            "{} was removed or replaced while the server used it. It stops, because another server \
             may use what is there now",
            path.display()
        )
    }
}

/// Asks for nothing but the number of the file. Whoever asks for its times too has the system tell them apart from then
/// on: the next write gets a time of its own, and where there is no file system journal, syncing that write means
/// writing the inode as well.
#[cfg(target_os = "linux")]
fn key_at(path: &CStr) -> io::Result<Key> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};

    match statx(CWD, path, AtFlags::empty(), StatxFlags::INO) {
        Ok(found) => Ok((makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino)),
        Err(rustix::io::Errno::NOSYS) => Ok(key(&stat(path)?)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn key_at(path: &CStr) -> io::Result<Key> {
    Ok(key(&stat(path)?))
}

#[expect(clippy::unnecessary_cast, reason = "the types differ between systems")]
pub(super) fn key(stat: &Stat) -> Key {
    (stat.st_dev as u64, stat.st_ino as u64)
}
