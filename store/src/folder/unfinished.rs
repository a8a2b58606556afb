//! Marks data directories that are not complete yet.
//!
//! A new store, a backup and a restored store consist of several files, which cannot be created in one step. So a
//! marker file is created first and removed last, and a directory with a marker is never used as a store. If an error,
//! a signal or a power failure interrupts the work, the directory does not exist, contains the marker, or is complete.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::dir_lock::LOCK;
use super::locked::Locked;
use super::rights::{make_private, make_private_below, new_private_file};
use super::{Identity, is_store_file, refused, sync, trouble};
use crate::Error;

const MARKER: &str = "INCOMPLETE";
/// The name of the marker while it is being written. So a marker under its final name is always whole.
const MARKER_PART: &str = "INCOMPLETE.part";
/// The directory that the system creates in an empty file system.
const LOST_AND_FOUND: &str = "lost+found";

/// The operation that creates the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Making {
    /// The first start creates an empty store.
    Store,
    Backup,
    /// A restore creates a store from a backup.
    Restore,
    /// A migration creates a store that moves here from elsewhere.
    Migration,
}

impl Making {
    const ALL: [Self; 4] = [Self::Store, Self::Backup, Self::Restore, Self::Migration];

    fn word(self) -> &'static str {
        match self {
            Self::Store => "first start",
            Self::Backup => "backup",
            Self::Restore => "restore",
            Self::Migration => "migration",
        }
    }
}

/// A directory with a marker. Unless it is completed, its files are removed when this value is dropped.
pub(crate) struct Unfinished {
    folder: PathBuf,
    /// The marker is locked while the operation runs.
    _marker: Locked,
    was_made: bool,
    is_complete: bool,
}

impl Unfinished {
    /// Puts the marker into a directory, which is created if necessary. Except for a first start, the directory must be
    /// empty. Remains of an interrupted attempt are removed.
    pub(crate) fn begin(folder: &Path, making: Making) -> Result<Self, Error> {
        let was_made = !folder.exists();
        let marker = if was_made { make(folder, making)? } else { occupy(folder, making)? };
        Ok(Self { folder: folder.into(), _marker: marker, was_made, is_complete: false })
    }

    /// Creates an empty file that receives this name on completion.
    pub(crate) fn part(&self, name: &str) -> Result<PathBuf, Error> {
        let path = part(&self.folder, name);
        new_private_file(&path)?;
        Ok(path)
    }

    /// Gives the files their names, in this order, and completes the directory.
    pub(crate) fn complete(mut self, names: &[&str]) -> Result<(), Error> {
        for name in names {
            let path = part(&self.folder, name);
            let synced = File::open(&path).and_then(|file| file.sync_all());
            synced.map_err(|error| trouble(&path, &error))?;
        }
        for name in names {
            let path = self.folder.join(name);
            let renamed = fs::rename(part(&self.folder, name), &path);
            renamed.map_err(|error| trouble(&path, &error))?;
        }
        sync(&self.folder)?;
        remove(&self.folder.join(MARKER))?;
        // From here on the removal of the marker might be durable, so no file may be removed any more.
        self.is_complete = true;
        sync(&self.folder)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // If this fails, the marker is still there.
        if !self.is_complete && clear(&self.folder).is_ok() && self.was_made {
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// Rejects an incomplete directory. Remains of a first start are removed instead, because no client has received a
/// response from that store.
pub(crate) fn admit(folder: &Path) -> Result<(), Error> {
    if is_leftover(folder)? { clear(folder) } else { Ok(()) }
}

/// Returns whether the directory contains only the remains of an interrupted first start. Fails if it is incomplete in
/// any other way.
pub(crate) fn is_leftover(folder: &Path) -> Result<bool, Error> {
    match found(folder)? {
        Some(Making::Store) => Ok(true),
        _ => check(folder).map(|()| false),
    }
}

/// Rejects an incomplete directory without changing it, for callers that only read.
pub(crate) fn check(folder: &Path) -> Result<(), Error> {
    let shown = folder.display();
    match found(folder)? {
        None => Ok(()),
        Some(Making::Store) => Err(refused(format!(
            "{shown} is incomplete: its first start was interrupted. The next start recreates it"
        ))),
        Some(making) => Err(refused(format!(
            "{shown} is incomplete: the {0} into it was interrupted. Repeat the {0}, or remove the directory",
            making.word()
        ))),
    }
}

/// Returns whether a file of this name marks its directory as incomplete.
pub(super) fn is_marker(name: &str) -> bool {
    name == MARKER || name == MARKER_PART
}

/// Returns the interrupted operation on this directory, if there is one.
fn found(folder: &Path) -> Result<Option<Making>, Error> {
    let path = folder.join(MARKER);
    let why = |error: io::Error| trouble(&path, &error);
    let marker = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        marker => marker.map_err(why)?,
    };
    let mut marker = lock(folder, marker)?;
    // The process that held the lock might just have completed the directory.
    if !Identity::is_of(&path, marker.file()) {
        return Ok(None);
    }
    let text = io::read_to_string(marker.file()).map_err(why)?;
    let first = text.lines().next().unwrap_or_default();
    let making = Making::ALL.into_iter().find(|making| making.word() == first);
    making.map(Some).ok_or_else(|| unknown(folder, first))
}

/// Returns the error for a marker that is foreign or from a later version.
fn unknown(folder: &Path, word: &str) -> Error {
    let what = match word {
        "" => "is empty".to_owned(),
        word => format!("contains {word:?}, which this version does not support"),
    };
    refused(format!(
        "{0} is incomplete: the file {MARKER} in it {what}. Restore a backup into a new directory, or finish with the \
         version that created this one. Only if you know that nothing is missing, remove {0}/{MARKER}",
        folder.display()
    ))
}

/// Fails if the operation is still running.
fn lock(folder: &Path, marker: File) -> Result<Locked, Error> {
    let locked = Locked::alone(marker).map_err(|error| trouble(folder, &error))?;
    let busy = || refused(format!("another process is creating {}", folder.display()));
    locked.ok_or_else(busy)
}

/// Creates a directory that contains its marker from the start: it receives its final name with the marker in it.
fn make(folder: &Path, making: Making) -> Result<Locked, Error> {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".incomplete");
    let beside = folder.with_file_name(name);
    make_folder(&beside, making)?;
    let named = mark(&beside, making).and_then(|marker| {
        fs::rename(&beside, folder).map_err(|error| trouble(folder, &error))?;
        Ok(marker)
    });
    let marker = named.inspect_err(|_| {
        // Best effort: otherwise the next attempt reuses the directory.
        let _ = clear(&beside).map(|()| fs::remove_dir(&beside));
    })?;
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    sync(parent.unwrap_or(Path::new(".")))?;
    Ok(marker)
}

/// Creates the directory if necessary. A backup does not create the directory that it belongs in: if that has vanished,
/// it was unmounted or deleted.
fn make_folder(folder: &Path, making: Making) -> Result<(), Error> {
    match making {
        Making::Backup => make_private_below(folder),
        Making::Store | Making::Restore | Making::Migration => make_private(folder),
    }
}

fn occupy(folder: &Path, making: Making) -> Result<Locked, Error> {
    if found(folder)?.is_some() {
        clear(folder)?;
    }
    if making != Making::Store {
        check_empty(folder)?;
    }
    make_folder(folder, making)?;
    let marker = mark(folder, making)?;
    // Removes remains of a crash, such as a log that SQLite would apply to a database of the same name.
    remove_files(folder)?;
    Ok(marker)
}

fn mark(folder: &Path, making: Making) -> Result<Locked, Error> {
    let (part, path) = (folder.join(MARKER_PART), folder.join(MARKER));
    // The lock fails if another process is working on this directory. Otherwise the marker is abandoned.
    if let Ok(marker) = File::open(&path) {
        drop(lock(folder, marker)?);
    }
    let why = |error: io::Error| trouble(&part, &error);
    let mut marker = lock(folder, new_private_file(&part)?)?;
    let word = making.word();
    let text = format!("{word}\nThis folder is no store as long as this file is here.\n");
    marker.file().write_all(text.as_bytes()).map_err(why)?;
    marker.file().sync_all().map_err(why)?;
    fs::rename(&part, &path).map_err(why)?;
    sync(folder)?;
    Ok(marker)
}

/// Removes all files of the unfinished store, and the marker last.
fn clear(folder: &Path) -> Result<(), Error> {
    remove_files(folder)?;
    sync(folder)?;
    remove(&folder.join(MARKER_PART))?;
    remove(&folder.join(MARKER))?;
    sync(folder)
}

fn remove_files(folder: &Path) -> Result<(), Error> {
    let why = |error: io::Error| trouble(folder, &error);
    for entry in fs::read_dir(folder).map_err(why)? {
        let entry = entry.map_err(why)?;
        if entry.file_name().to_str().is_some_and(is_store_file) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn check_empty(folder: &Path) -> Result<(), Error> {
    let why = |error: io::Error| trouble(folder, &error);
    for entry in fs::read_dir(folder).map_err(why)? {
        let name = entry.map_err(why)?.file_name();
        // A server that refused to start here has left its lock file.
        let is_nothing = name == LOST_AND_FOUND || name == MARKER_PART || name == LOCK;
        if !is_nothing {
            let (shown, name) = (folder.display(), Path::new(&name).display());
            return Err(refused(format!(
                "{shown} is not empty: it contains {name}; use a new directory"
            )));
        }
    }
    Ok(())
}

fn part(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.part"))
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(trouble(path, &error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_does_not_create_the_directory_that_it_belongs_in() {
        let folder = tempfile::tempdir().expect("a folder");
        let parent = folder.path().join("vanished");
        let target = parent.join("one");
        assert!(Unfinished::begin(&target, Making::Backup).is_err());
        assert!(!parent.exists());
        drop(Unfinished::begin(&target, Making::Restore).expect("made with its parent"));
        drop(Unfinished::begin(&target, Making::Backup).expect("the parent is there"));
    }
}
