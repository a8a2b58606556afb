//! Walks a path without leaving the directory in which it starts.
//!
//! Each directory is opened by its name in the directory before it, and never through a symbolic link. So a walk stays
//! inside even if another process changes directories in the meantime. It also means that no file has two paths, which
//! would be two different locks.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::Error;
use super::path::FilePath;

/// Opens the directory `name` in `folder`.
pub(super) fn enter(folder: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    fs::openat(folder, name, flags, Mode::empty())
}

/// Opens the parent directory of a path. Returns it with the last name in the path.
pub(super) fn to_parent<'a>(
    root: &OwnedFd,
    path: &'a FilePath,
) -> Result<(OwnedFd, &'a str), Error> {
    let mut folder = root.try_clone()?;
    let mut segments = path.segments().peekable();
    while let Some(name) = segments.next() {
        if segments.peek().is_none() {
            return Ok((folder, name));
        }
        folder = enter(&folder, name)?;
    }
    Err(Error::IsFolder)
}

/// Opens the directory at a path.
pub(super) fn to_folder(root: &OwnedFd, path: &FilePath) -> Result<OwnedFd, Error> {
    let mut folder = root.try_clone()?;
    for name in path.segments() {
        folder = enter(&folder, name)?;
    }
    Ok(folder)
}

/// Opens the directory at a path and creates missing directories, durably. Returns whether the last one is new.
pub(super) fn make<'a>(
    root: &OwnedFd,
    names: impl Iterator<Item = &'a str>,
) -> Result<(OwnedFd, bool), Error> {
    let mut folder = root.try_clone()?;
    let mut is_new = false;
    for name in names {
        is_new = match fs::mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        let inner = enter(&folder, name)?;
        if is_new {
            fs::fsync(&folder)?;
        }
        folder = inner;
    }
    Ok((folder, is_new))
}

/// Returns the file status of an entry. A symbolic link is not followed.
pub(super) fn look(folder: &OwnedFd, name: &str) -> Result<fs::Stat, Errno> {
    fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Returns the size of all files in a directory, at any depth. Files that cannot be read are not counted.
pub(super) fn n_bytes(root: &Path) -> u64 {
    let mut n_bytes = 0;
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(data) if data.is_dir() => folders.push(entry.path()),
                Ok(data) if data.is_file() => n_bytes += data.len(),
                _ => {}
            }
        }
    }
    n_bytes
}

impl From<Errno> for Error {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT => Error::Missing,
            // Opening a symbolic link as a directory fails with either error, depending on the system.
            Errno::NOTDIR | Errno::LOOP => Error::NotFolder,
            Errno::ISDIR => Error::IsFolder,
            Errno::NOTEMPTY => Error::NotEmpty,
            Errno::MFILE | Errno::NFILE => Error::NoFiles,
            Errno::NOSPC | Errno::DQUOT => Error::Full,
            other => Error::Broken(other.into()),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Errno::from_io_error(&error).map_or(Error::Broken(error), Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_open_files_are_no_broken_disk() {
        for errno in [Errno::MFILE, Errno::NFILE] {
            assert!(matches!(Error::from(errno), Error::NoFiles));
            let error = std::io::Error::from_raw_os_error(errno.raw_os_error());
            assert!(matches!(Error::from(error), Error::NoFiles));
        }
        assert!(matches!(Error::from(Errno::IO), Error::Broken(_)));
    }
}
