//! The data directory: its permissions, its lock, and whether it is complete.
//!
//! The store defines the contents of its files. Here only their names matter.

mod dir_lock;
mod identity;
mod locked;
mod node;
mod reserve;
mod rights;
mod unfinished;

use std::fs::File;
use std::io;
use std::path::Path;

pub(super) use dir_lock::{DirLock, Hold, LockFile, in_use};
pub use dir_lock::{lock_path, user};
pub(super) use identity::Identity;
pub(crate) use node::MEMORY;
pub use node::NodeFolder;
pub(crate) use node::check_own;
pub(super) use reserve::{Reserve, preallocate};
pub(super) use rights::{check_private, make_parent, make_private};
pub(super) use unfinished::{Making, Unfinished, admit, check, is_leftover};

use rustix::fs::statvfs;

use super::Error;

/// The size by which SQLite's index of a write-ahead log grows.
const ROOM_MIN: u64 = 32 * 1024;
/// The prefixes of the names of a store's files.
const STORE_FILES: [&str; 3] = ["journal.db", "tables.db", "mark"];

/// Returns whether a file of this name is part of a store.
pub(super) fn is_store_file(name: &str) -> bool {
    STORE_FILES.iter().any(|begin| name.starts_with(begin))
}

/// Makes the directory's list of files durable.
pub(super) fn sync(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| trouble(folder, &error))
}

/// Returns the error for a failed operation on a file, with advice if the disk is full.
pub(super) fn trouble(path: &Path, error: &io::Error) -> Error {
    Error::Refused(match is_no_space(error) {
        true => no_room(path, error),
        false => format!("{}: {error}", path.display()),
    })
}

/// Returns whether an operation failed because the disk is full.
pub(super) fn is_no_space(error: &io::Error) -> bool {
    [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind())
}

/// Returns the free bytes on the file system of this folder.
pub(super) fn free(folder: &Path) -> io::Result<u64> {
    let found = statvfs(folder)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Returns whether the file system of this file has almost no space left.
pub(super) fn is_full(path: &Path) -> bool {
    free(path.parent().unwrap_or(path)).is_ok_and(|free| free < ROOM_MIN)
}

/// The part of the message for a full disk that no other message contains.
const NO_ROOM: &str = "Its file system is full";

/// Returns the message for a full disk.
pub(super) fn no_room(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!(
        "{}: {error}. {NO_ROOM}. Free some space, then start again; no acknowledged write is lost",
        path.display()
    )
}

/// Returns whether this is the error for a full disk.
pub(super) fn is_no_room(error: &Error) -> bool {
    error.to_string().contains(NO_ROOM)
}

fn refused(why: String) -> Error {
    Error::Refused(why)
}
