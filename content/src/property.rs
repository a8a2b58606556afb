//! Keeps the properties that clients set for a file or folder. They are stored in an extended attribute of the file, so
//! they move with it and end with it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

/// The extended attribute. Not every file system supports such attributes.
const ATTRIBUTE: &str = "user.leasehold.properties";
/// Maximum attribute size in Linux; most file systems allow less.
const BYTES_MAX: usize = 64 * 1024;

/// Returns the properties of an open file or directory; `None` if there are none.
pub(super) fn read(file: impl AsFd) -> Option<Vec<u8>> {
    // Most files have no properties, so this query is usually the only system call.
    let n_bytes = fs::fgetxattr_query(&file, ATTRIBUTE).ok()?;
    let mut bytes = vec![0; n_bytes.min(BYTES_MAX)];
    let n_bytes = fs::fgetxattr(&file, ATTRIBUTE, &mut bytes).ok()?;
    bytes.truncate(n_bytes);
    (!bytes.is_empty()).then_some(bytes)
}

/// Replaces the properties, durably. Returns `false` if the file system does not support properties of this size.
pub(super) fn write(file: impl AsFd, bytes: &[u8]) -> Result<bool, Errno> {
    let written = if bytes.is_empty() {
        match fs::fremovexattr(&file, ATTRIBUTE) {
            Err(Errno::NODATA) => Ok(()),
            removed => removed,
        }
    } else {
        fs::fsetxattr(&file, ATTRIBUTE, bytes, XattrFlags::empty())
    };
    match written {
        Ok(()) => fs::fsync(&file).map(|()| true),
        Err(Errno::OPNOTSUPP | Errno::NOSPC | Errno::TOOBIG | Errno::RANGE) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens the file or directory with this name in `folder`, to access its properties. It never follows a symbolic link.
pub(super) fn open(folder: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    fs::openat(folder, name, flags, Mode::empty())
}
