//! Folders that are not complete yet, and say so.
//!
//! A new store, a backup and a restored one are each several files, which cannot come to be in one step. So a marker
//! comes first and goes last, and nobody takes a folder with a marker for a store. Whatever ends the making - an
//! error, a signal, the power - the folder is not there, has its marker, or is complete.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::dir_lock::LOCK;
use super::locked::Locked;
use super::rights::{make_private, new_private_file};
use super::{Identity, is_store_file, refused, sync, trouble};
use crate::Error;

const MARKER: &str = "INCOMPLETE";
/// The marker while it is written: one that can be read is whole.
const MARKER_PART: &str = "INCOMPLETE.part";
/// What the system puts into an empty file system.
const LOST_AND_FOUND: &str = "lost+found";

/// What is being made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Making {
    /// An empty store, by the first start.
    Store,
    /// A backup.
    Backup,
    /// A store, from a backup.
    Restore,
    /// A store that moves here from elsewhere.
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

/// A folder with a marker. Unless it is completed, what was put into it is removed again.
pub(crate) struct Unfinished {
    folder: PathBuf,
    /// Locked as long as somebody is at work.
    _marker: Locked,
    was_made: bool,
    is_complete: bool,
}

impl Unfinished {
    /// Puts the marker into a folder, which is made if it is not there. But for a first start it must be empty; what
    /// an interrupted attempt left is removed.
    pub(crate) fn begin(folder: &Path, making: Making) -> Result<Self, Error> {
        let was_made = !folder.exists();
        let marker = if was_made { make(folder, making)? } else { occupy(folder, making)? };
        Ok(Self { folder: folder.into(), _marker: marker, was_made, is_complete: false })
    }

    /// An empty file that takes this name at the end.
    pub(crate) fn part(&self, name: &str) -> Result<PathBuf, Error> {
        let path = part(&self.folder, name);
        new_private_file(&path)?;
        Ok(path)
    }

    /// The parts get their names, in this order, and the folder is what it was to be.
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
        // The marker may be gone for good from here on, so nothing is removed any more.
        self.is_complete = true;
        sync(&self.folder)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // If this fails the marker is still there.
        if !self.is_complete && clear(&self.folder).is_ok() && self.was_made {
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// Lets nobody take an incomplete folder for a store. What a first start left is removed: nobody relied on it.
pub(crate) fn admit(folder: &Path) -> Result<(), Error> {
    if is_leftover(folder)? { clear(folder) } else { Ok(()) }
}

/// Whether all there is was left by a first start that was interrupted. Whatever else is incomplete is refused.
pub(crate) fn is_leftover(folder: &Path) -> Result<bool, Error> {
    match found(folder)? {
        Some(Making::Store) => Ok(true),
        _ => check(folder).map(|()| false),
    }
}

/// The same for those who only read.
pub(crate) fn check(folder: &Path) -> Result<(), Error> {
    let shown = folder.display();
    match found(folder)? {
        None => Ok(()),
        Some(Making::Store) => Err(refused(format!(
            "{shown} is incomplete: its first start was interrupted. The next start makes it anew"
        ))),
        Some(making) => Err(refused(format!(
            "{shown} is incomplete: the {0} into it was interrupted. Repeat the {0}, or remove the \
             folder",
            making.word()
        ))),
    }
}

/// Whether a file of this name marks its folder as incomplete.
pub(super) fn is_marker(name: &str) -> bool {
    name == MARKER || name == MARKER_PART
}

/// What was begun in this folder, and is not being worked on any more.
fn found(folder: &Path) -> Result<Option<Making>, Error> {
    let path = folder.join(MARKER);
    let why = |error: io::Error| trouble(&path, &error);
    let marker = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        marker => marker.map_err(why)?,
    };
    let mut marker = lock(folder, marker)?;
    // Whoever was at work may just have completed it.
    if !Identity::is_of(&path, marker.file()) {
        return Ok(None);
    }
    let text = io::read_to_string(marker.file()).map_err(why)?;
    let first = text.lines().next().unwrap_or_default();
    let making = Making::ALL.into_iter().find(|making| making.word() == first);
    making.map(Some).ok_or_else(|| unknown(folder, first))
}

/// A marker that is none of ours, or of a later version.
fn unknown(folder: &Path, word: &str) -> Error {
    let what = match word {
        "" => "is empty".to_owned(),
        word => format!("says {word:?}, which this version does not know"),
    };
    refused(format!(
        "{0} is incomplete: the file {MARKER} in it {what}. Restore a backup into a new folder, or let the version \
         that made this one finish it. Only if you know that nothing is missing, remove {0}/{MARKER}",
        folder.display()
    ))
}

/// Fails if somebody is at work.
fn lock(folder: &Path, marker: File) -> Result<Locked, Error> {
    let locked = Locked::alone(marker).map_err(|error| trouble(folder, &error))?;
    let busy = || refused(format!("{} is being made by another process", folder.display()));
    locked.ok_or_else(busy)
}

/// Makes a folder that has its marker from the beginning: it gets its name with the marker in it.
fn make(folder: &Path, making: Making) -> Result<Locked, Error> {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".incomplete");
    let beside = folder.with_file_name(name);
    make_private(&beside)?;
    let named = mark(&beside, making).and_then(|marker| {
        fs::rename(&beside, folder).map_err(|error| trouble(folder, &error))?;
        Ok(marker)
    });
    let marker = named.inspect_err(|_| {
        // Best effort: the next attempt makes use of it otherwise.
        let _ = clear(&beside).map(|()| fs::remove_dir(&beside));
    })?;
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    sync(parent.unwrap_or(Path::new(".")))?;
    Ok(marker)
}

fn occupy(folder: &Path, making: Making) -> Result<Locked, Error> {
    if found(folder)?.is_some() {
        clear(folder)?;
    }
    if making != Making::Store {
        check_empty(folder)?;
    }
    make_private(folder)?;
    let marker = mark(folder, making)?;
    // Leftovers of some crash, such as a log SQLite would apply to a database of the same name.
    remove_files(folder)?;
    Ok(marker)
}

fn mark(folder: &Path, making: Making) -> Result<Locked, Error> {
    let (part, path) = (folder.join(MARKER_PART), folder.join(MARKER));
    // What is there was abandoned, or somebody else is at work.
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

/// Removes what was made so far, the marker last.
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
            return Err(refused(format!("{shown} is not empty: it has {name}. Name a new folder")));
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
