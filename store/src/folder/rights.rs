//! Who may read a data folder: its owner and nobody else. Lease ids are in there, and they are proofs.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use leasehold_base::probe;

use super::unfinished::is_marker;
use super::{is_store_file, refused, trouble};
use crate::Error;

/// Told to those who may ask, and no part of the store.
const HISTORY: &str = "history.db";
const FOLDER: u32 = 0o700;
pub(super) const FILE: u32 = 0o600;
/// What a group and all others may do.
const OTHERS: u32 = 0o077;
const OTHERS_WRITE: u32 = 0o022;
/// Every bit of a mode.
const ALL: u32 = 0o7777;

/// Makes the folder if it is not there, and takes away what others may do with it and the store in it.
pub(crate) fn make_private(folder: &Path) -> Result<(), Error> {
    let why = |error: io::Error| trouble(folder, &error);
    check_private(folder)?;
    DirBuilder::new().recursive(true).mode(FOLDER).create(folder).map_err(why)?;
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

/// Says why a folder cannot be made, or cannot be made private. Leaves everything as it is.
pub(crate) fn check_private(folder: &Path) -> Result<(), Error> {
    match folder.metadata() {
        Ok(found) if found.is_dir() => {
            let mode = found.permissions().mode() & ALL;
            // Whoever may set the mode it has may set another.
            if mode & OTHERS != 0 { tighten(folder, mode, mode) } else { Ok(()) }
        }
        _ => probe::folder(folder).map_err(refused),
    }
}

/// Makes an empty file that only its owner can read, in place of one that may be there. What SQLite keeps beside a
/// database gets the same rights.
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
        // SQLite removes its files beside the database as it likes.
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
            "{shown} has other files in it and can be read by others (mode {mode:03o}). Name a folder \
             of its own, such as {shown}/leasehold, or take their rights away: chmod 700 {shown}"
        )));
    }
    match set_mode(folder, to) {
        Ok(()) => {
            if is_changed {
                tracing::warn!(
                    "{shown} could be read by others (mode {mode:03o}); its mode is 700 now"
                );
            }
            Ok(())
        }
        // Others see the names of our files, and can do nothing with them.
        Err(_) if mode & OTHERS_WRITE == 0 => Ok(()),
        Err(error) => Err(refused(format!(
            "{shown} can be written to by others (mode {mode:03o}), and this user cannot change that: \
             {error}. Name a folder in it, such as {shown}/leasehold, which is made with the right mode"
        ))),
    }
}

/// Nothing in it, or a store.
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
