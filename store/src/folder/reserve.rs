//! The disk reserve: a preallocated file that shrinks when a write finds the disk full.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::rights::FILE;
use super::trouble;
use crate::Error;

pub(crate) const RESERVE: &str = "reserve";
/// The block size in which the system reports a file's allocation.
const BLOCK_BYTES: u64 = 512;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The space set aside in a data directory.
pub(crate) struct Reserve {
    path: PathBuf,
    /// `None`: there is no file.
    file: Option<File>,
    n_bytes: u64,
}

impl Reserve {
    /// Opens the reserve of an earlier process, if there is one. Needs no disk space.
    pub(crate) fn find(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(RESERVE);
        let why = |error: io::Error| trouble(&path, &error);
        let file = match File::options().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            file => Some(file.map_err(why)?),
        };
        let mut n_bytes = 0;
        if let Some(file) = &file {
            let found = file.metadata().map_err(why)?;
            // A copy of the directory can have the length without the blocks.
            let is_allocated = found.blocks().saturating_mul(BLOCK_BYTES) >= found.len();
            n_bytes = if is_allocated { found.len() } else { 0 };
        }
        Ok(Self { path, file, n_bytes })
    }

    /// The number of bytes set aside.
    pub(crate) fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Sets aside this many bytes, or changes nothing.
    pub(crate) fn grow(&mut self, to: u64) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let mut options = File::options();
                let options = options.create(true).truncate(false).read(true).write(true);
                options.mode(FILE).open(&self.path)?
            }
        };
        let grown = allocate(&file, self.n_bytes, to).and_then(|()| file.sync_all());
        if grown.is_ok() {
            self.n_bytes = to;
        } else {
            // Best effort: releases the part that was allocated.
            let _ = file.set_len(self.n_bytes).and_then(|()| file.sync_all());
        }
        self.file = Some(file);
        grown
    }

    /// Releases this many bytes, or the rest; `false` if nothing is left.
    pub(crate) fn shrink(&mut self, by: u64) -> io::Result<bool> {
        self.shrink_to(self.n_bytes.saturating_sub(by))
    }

    /// Shrinks the reserve to this size.
    pub(crate) fn shrink_to(&mut self, n_bytes: u64) -> io::Result<bool> {
        let Some(file) = self.file.as_ref().filter(|_| self.n_bytes > n_bytes) else {
            return Ok(false);
        };
        file.set_len(n_bytes)?;
        self.n_bytes = n_bytes;
        // Many file systems reuse freed blocks only after the change is synced.
        file.sync_all()?;
        Ok(true)
    }

    /// Releases all space and removes the file.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        if self.file.take().is_some() {
            std::fs::remove_file(&self.path)?;
        }
        self.n_bytes = 0;
        Ok(())
    }
}

/// Allocates blocks for the first bytes of a file without changing its length. Never call it for a database: closing
/// any descriptor of one drops SQLite's locks on it. A write-ahead log has no locks.
pub(crate) fn preallocate(log: &Path, n_bytes: u64) -> io::Result<()> {
    let file = File::options().write(true).open(log)?;
    Ok(fallocate(&file, FallocateFlags::KEEP_SIZE, 0, n_bytes)?)
}

fn allocate(file: &File, from: u64, to: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, to) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill(file, from, to),
        Err(error) => Err(error.into()),
    }
}

/// The fallback for file systems that cannot preallocate.
fn fill(mut file: &File, from: u64, to: u64) -> io::Result<()> {
    use std::io::{Seek, SeekFrom};
    file.seek(SeekFrom::Start(from))?;
    let mut n_left = to.saturating_sub(from);
    while n_left > 0 {
        let n = n_left.min(ZEROS.len() as u64);
        file.write_all(&ZEROS[..n as usize])?;
        n_left -= n;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: u64 = 1 << 20;

    fn n_allocated(folder: &Path) -> u64 {
        let found = folder.join(RESERVE).metadata().expect("a file");
        found.blocks() * BLOCK_BYTES
    }

    #[test]
    fn a_log_can_have_blocks_beyond_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(RESERVE);
        std::fs::write(&path, "something").expect("written");
        preallocate(&path, PIECE).expect("allocated");
        assert!(n_allocated(folder.path()) >= PIECE);
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "something");
    }

    #[test]
    fn what_is_set_aside_is_found_again_and_released_in_pieces() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let mut reserve = Reserve::find(folder).expect("none");
        assert_eq!(reserve.n_bytes(), 0);
        assert!(!reserve.shrink(PIECE).expect("nothing to do"));
        reserve.grow(2 * PIECE + 5).expect("set aside");
        assert!(n_allocated(folder) > 2 * PIECE);
        let mode = folder.join(RESERVE).metadata().expect("a file").mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut reserve = Reserve::find(folder).expect("found");
        for n_left in [PIECE + 5, 5, 0] {
            assert!(reserve.shrink(PIECE).expect("released"));
            assert_eq!(reserve.n_bytes(), n_left);
            assert!(n_allocated(folder) <= n_left + 4096);
        }
        assert!(!reserve.shrink(PIECE).expect("nothing to do"));
        reserve.grow(PIECE).expect("set aside again");
        assert!(n_allocated(folder) >= PIECE);
        reserve.remove().expect("removed");
        assert!(!folder.join(RESERVE).exists());
    }

    #[test]
    fn a_file_without_blocks_is_no_reserve() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = File::create(folder.path().join(RESERVE)).expect("made");
        file.set_len(PIECE).expect("a hole");
        let mut reserve = Reserve::find(folder.path()).expect("found");
        assert_eq!(reserve.n_bytes(), 0);
        reserve.grow(PIECE).expect("set aside");
        assert!(n_allocated(folder.path()) >= PIECE);
    }

    #[test]
    fn space_can_be_filled_where_it_cannot_be_allocated() {
        let file = tempfile::tempfile().expect("a file");
        fill(&file, 0, 100_000).expect("filled");
        fill(&file, 100_000, 200_001).expect("filled");
        let found = file.metadata().expect("a file");
        assert_eq!(found.len(), 200_001);
        assert!(found.blocks() * BLOCK_BYTES >= 200_001);
    }
}
