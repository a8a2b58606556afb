//! What clients say of a file or folder beside its content: kept with it, so it goes where it goes and ends with it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

/// Where it is kept. Not every file system can.
const ATTRIBUTE: &str = "user.leasehold.properties";
/// Largest that Linux keeps; most file systems keep less.
const BYTES_MAX: usize = 64 * 1024;

/// What is kept with something that is open; `None` if there is nothing.
pub(super) fn read(file: impl AsFd) -> Option<Vec<u8>> {
    // Nearly always there is nothing: that costs one look.
    let n_bytes = fs::fgetxattr_query(&file, ATTRIBUTE).ok()?;
    let mut bytes = vec![0; n_bytes.min(BYTES_MAX)];
    let n_bytes = fs::fgetxattr(&file, ATTRIBUTE, &mut bytes).ok()?;
    bytes.truncate(n_bytes);
    (!bytes.is_empty()).then_some(bytes)
}

/// Keeps it, durably. `false`: the file system cannot keep as much, or nothing at all.
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

/// Whatever is of this name in a folder, open for its properties. Never through a link.
pub(super) fn open(folder: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    fs::openat(folder, name, flags, Mode::empty())
}
