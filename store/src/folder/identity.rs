//! Checks whether a path still leads to the same file.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Stat, fstat, stat};

/// The file that a path led to when it was opened.
pub(crate) struct Identity {
    /// A C string, because the system call is made for every record.
    path: CString,
    key: Key,
}

/// Device and inode, which identify a file.
pub(super) type Key = (u64, u64);

impl Identity {
    /// Returns the identity of the file at this path.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        Ok(Self { key: key_at(&path)?, path })
    }

    /// Returns whether the path leads to this file.
    pub(super) fn is_of(path: &Path, file: &File) -> bool {
        let opened = fstat(file).map(|stat| key(&stat));
        opened.is_ok_and(|opened| stat(path).is_ok_and(|found| key(&found) == opened))
    }

    /// Returns whether the path still leads to the same file. Takes one system call.
    pub(crate) fn is_there(&self) -> bool {
        key_at(&self.path).is_ok_and(|found| found == self.key)
    }

    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// Returns the message for a path that leads to a different file or none.
    pub(crate) fn lost(&self) -> String {
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(self.path.as_bytes()));
        format!(
            "{} was removed or replaced while the server used it; the server stops, because another server might use \
             the new one",
            path.display()
        )
    }
}

/// Reads only the device and inode of a file. Reading its timestamps too would make the kernel give the next write a
/// separate timestamp. On file systems without a journal, syncing that write would then also write the inode.
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
