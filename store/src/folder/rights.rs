//! Makes a data directory readable only by its owner, because it contains lease ids, which are proofs of ownership.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use leasehold_base::probe;

use super::unfinished::is_marker;
use super::{is_store_file, refused, trouble};
use crate::Error;

/// The history file. It is not part of the store, and clients with the right to read it can query its events.
const HISTORY: &str = "history.db";
const FOLDER: u32 = 0o700;
pub(super) const FILE: u32 = 0o600;
/// The permissions of the group and all other users.
const OTHERS: u32 = 0o077;
const OTHERS_WRITE: u32 = 0o022;
/// All bits of a mode.
const ALL: u32 = 0o7777;

/// Creates the directory if necessary, and removes all permissions of other users for it and the store in it.
pub(crate) fn make_private(folder: &Path) -> Result<(), Error> {
    check_private(folder)?;
    make_with_parents(folder)?;
    hide(folder)
}

/// Like [`make_private`], but fails if the parent directory is missing.
pub(crate) fn make_private_below(folder: &Path) -> Result<(), Error> {
    check_private(folder)?;
    match DirBuilder::new().mode(FOLDER).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(trouble(folder, &error)),
        _ => hide(folder),
    }
}

/// Creates the parent directory if necessary.
pub(crate) fn make_parent(folder: &Path) -> Result<(), Error> {
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.map_or(Ok(()), make_with_parents)
}

fn make_with_parents(folder: &Path) -> Result<(), Error> {
    let made = DirBuilder::new().recursive(true).mode(FOLDER).create(folder);
    made.map_err(|error| trouble(folder, &error))
}

/// Removes all permissions of other users for a directory and the store in it.
fn hide(folder: &Path) -> Result<(), Error> {
    let why = |error: io::Error| trouble(folder, &error);
    let mode = mode(folder).map_err(why)?;
    if mode & OTHERS != 0 {
        tighten(folder, mode, FOLDER)?;
    }
    for entry in fs::read_dir(folder).map_err(why)? {
        let entry = entry.map_err(why)?;
        if entry.file_name().to_str().is_some_and(is_ours) {
            make_file_private(&entry.path())?;
        }
    }
    Ok(())
}

/// Returns why the directory cannot be created or made private. Changes nothing.
pub(crate) fn check_private(folder: &Path) -> Result<(), Error> {
    match folder.metadata() {
        Ok(found) if found.is_dir() => {
            let mode = found.permissions().mode() & ALL;
            // Setting the current mode again shows whether this user can change the mode.
            if mode & OTHERS != 0 { tighten(folder, mode, mode) } else { Ok(()) }
        }
        _ => probe::folder(folder).map_err(refused),
    }
}

/// Creates an empty file that only its owner can read, or truncates an existing one. SQLite gives the files that
/// accompany a database the same permissions.
pub(super) fn new_private_file(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(true).read(true).write(true).mode(FILE);
    let file = options.open(path).map_err(|error| trouble(path, &error))?;
    make_file_private(path)?;
    Ok(file)
}

fn make_file_private(path: &Path) -> Result<(), Error> {
    match mode(path) {
        Ok(mode) if mode & OTHERS != 0 => set_mode(path, FILE),
        // SQLite can remove the files that accompany a database at any time.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map(drop),
    }
    .map_err(|error| trouble(path, &error))
}

fn tighten(folder: &Path, mode: u32, to: u32) -> Result<(), Error> {
    let shown = folder.display();
    let is_changed = mode != to;
    let mode = mode & 0o777;
    if !is_ours_alone(folder).map_err(|error| trouble(folder, &error))? {
        return Err(refused(format!(
            "{shown} contains other files and is readable by other users (mode {mode:03o}). Use a separate directory, \
             such as {shown}/leasehold, or run: chmod 700 {shown}"
        )));
    }
    match set_mode(folder, to) {
        Ok(()) => {
            if is_changed {
                tracing::warn!(
                    "{shown} was readable by other users (mode {mode:03o}); changed its mode to 700"
                );
            }
            Ok(())
        }
        // Other users can see the names of the files, but cannot access them.
        Err(_) if mode & OTHERS_WRITE == 0 => Ok(()),
        Err(error) => Err(refused(format!(
            "{shown} is writable by other users (mode {mode:03o}), and this user cannot change that: {error}. Use a \
             directory in it, such as {shown}/leasehold, which the server creates with the right mode"
        ))),
    }
}

/// Returns whether the directory is empty or contains a store.
fn is_ours_alone(folder: &Path) -> io::Result<bool> {
    let mut is_empty = true;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if name.to_str().is_some_and(is_ours) {
            return Ok(true);
        }
        is_empty &= name == "lost+found";
    }
    Ok(is_empty)
}

fn is_ours(name: &str) -> bool {
    is_store_file(name)
        || is_marker(name)
        || name.starts_with(HISTORY)
        || name == super::dir_lock::LOCK
        || name == super::reserve::RESERVE
}

fn mode(path: &Path) -> io::Result<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o777)
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}
