//! Whole folders: removed, moved and copied as one.
//!
//! What is to go is first moved to where drafts are, by one rename, and is gone to everybody else. A copy is made there
//! and moved to its place when it is whole. What a server that ended left there is removed at the next start.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{self, AtFlags, Dir, FileType, Mode};
use rustix::io::Errno;

use super::local::{Place, copied, new_draft};
use super::path::FilePath;
use super::room::{Room, Taken};
use super::{Draft, Error, Facts, ToWrite, property, walk};
use crate::auth::Permitted;

/// Removes everything in a folder of ours, however deep: folders in folders are moved up to it first, so that there is
/// never more than one to look into. What is freed is given back to `room`.
pub(super) fn clear(incoming: &OwnedFd, first: &str, room: Option<&Room>) -> Result<(), Error> {
    let mut folders = vec![first.to_owned()];
    let mut n_moved = 0_u64;
    while let Some(name) = folders.pop() {
        let folder = walk::enter(incoming, &name)?;
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let inner = entry.file_name();
            if inner == c"." || inner == c".." {
                continue;
            }
            let stat = fs::statat(&folder, inner, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode).is_dir() {
                n_moved += 1;
                let moved = format!("{first}.{n_moved}");
                fs::renameat(&folder, inner, incoming, &moved)?;
                folders.push(moved);
            } else {
                fs::unlinkat(&folder, inner, AtFlags::empty())?;
                if let Some(room) = room.filter(|_| is_file(&stat)) {
                    room.give_back(stat.st_size as u64);
                }
            }
        }
        match fs::unlinkat(incoming, &name, AtFlags::REMOVEDIR) {
            // A folder that is changed while it is read may not show everything.
            Err(Errno::NOTEMPTY) => folders.push(name),
            removed => removed?,
        }
    }
    Ok(())
}

fn is_file(stat: &fs::Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_file()
}

/// Removes a file or a folder with everything in it: at once to everybody else.
pub(super) fn remove(place: &Arc<Place>, path: &FilePath) -> Result<(), Error> {
    place.room.wait();
    let (folder, name) = walk::to_parent(&place.root, path)?;
    let aside = Aside::put(place, &folder, name)?;
    fs::fsync(&folder)?;
    aside.clear(place);
    Ok(())
}

/// Moves a file or folder, over what is there. Was nothing there?
pub(super) fn rename(place: &Arc<Place>, from: &FilePath, to: &FilePath) -> Result<bool, Error> {
    place.room.wait();
    let (from_folder, from_name) = walk::to_parent(&place.root, from)?;
    let (to_folder, to_name) = walk::to_parent(&place.root, to)?;
    let moved = walk::look(&from_folder, from_name)?;
    let before = match walk::look(&to_folder, to_name) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(error) => return Err(error.into()),
    };
    let is_new = before.is_none();
    // A file takes the place of a file at once. Anything else makes room first.
    let mut aside = None;
    match before {
        Some(before) if is_file(&before) && is_file(&moved) => {
            fs::renameat(&from_folder, from_name, &to_folder, to_name)?;
            place.room.give_back(before.st_size as u64);
        }
        before => {
            if before.is_some() {
                aside = Some(Aside::put(place, &to_folder, to_name)?);
            }
            fs::renameat(&from_folder, from_name, &to_folder, to_name)?;
        }
    }
    fs::fsync(&to_folder)?;
    fs::fsync(&from_folder)?;
    aside.into_iter().for_each(|aside| aside.clear(place));
    Ok(is_new)
}

/// Something that was moved out of everybody's sight, to be removed.
struct Aside {
    name: String,
    stat: fs::Stat,
}

impl Aside {
    fn put(place: &Arc<Place>, folder: &OwnedFd, name: &str) -> Result<Self, Error> {
        let stat = walk::look(folder, name)?;
        if !matches!(
            FileType::from_raw_mode(stat.st_mode),
            FileType::Directory | FileType::RegularFile
        ) {
            return Err(Error::Missing);
        }
        let aside = place.new_name();
        fs::renameat(folder, name, &place.incoming, &aside)?;
        Ok(Self { name: aside, stat })
    }

    /// What stays for some reason is removed at the next start.
    fn clear(self, place: &Arc<Place>) {
        let cleared = if is_file(&self.stat) {
            let gone = fs::unlinkat(&place.incoming, &self.name, AtFlags::empty());
            gone.map(|()| place.room.give_back(self.stat.st_size as u64)).map_err(Error::from)
        } else {
            clear(&place.incoming, &self.name, Some(&place.room))
        };
        if let Err(error) = cleared {
            tracing::warn!(%error, "what was removed could not be cleared away yet");
        }
    }
}

/// Copies a file, or a folder with everything in it or without, to where drafts are: at most `n_max` of them.
pub(super) fn copy(
    place: &Arc<Place>,
    from: &FilePath,
    is_deep: bool,
    n_max: usize,
) -> Result<Box<dyn Draft>, Error> {
    place.room.check(0)?;
    let (folder, name) = walk::to_parent(&place.root, from)?;
    let stat = walk::look(&folder, name)?;
    if is_file(&stat) {
        let mut draft = new_draft(place)?;
        draft.fill(&mut File::from(property::open(&folder, name)?))?;
        return Ok(Box::new(draft));
    }
    let source = walk::enter(&folder, name)?;
    let taken = Taken::none(place.room.clone());
    // Dropped on the way, it leaves nothing behind.
    let mut draft = FolderDraft { place: place.clone(), name: Some(place.new_name()), taken };
    draft.fill(&source, is_deep, n_max)?;
    Ok(Box::new(draft))
}

/// A folder that is none yet.
struct FolderDraft {
    place: Arc<Place>,
    name: Option<String>,
    taken: Taken,
}

impl FolderDraft {
    fn fill(&mut self, source: &OwnedFd, is_deep: bool, n_max: usize) -> Result<(), Error> {
        let name = self.name.as_deref().ok_or(Error::Missing)?;
        fs::mkdirat(&self.place.incoming, name, Mode::from_raw_mode(0o777))?;
        let target = walk::enter(&self.place.incoming, name)?;
        let mut n_left = n_max;
        // By their names: there may be more of them than a process may have open.
        let mut folders = vec![Vec::<String>::new()];
        while let Some(way) = folders.pop() {
            let (from, to) = (enter_all(source, &way)?, enter_all(&target, &way)?);
            if let Some(properties) = property::read(&from) {
                property::write(&to, &properties)?;
            }
            if is_deep {
                let inner = members(&from, &to, &mut self.taken, &mut n_left)?;
                folders.extend(inner.into_iter().map(|name| [&*way, &[name]].concat()));
            }
            fs::fsync(&to)?;
        }
        Ok(())
    }
}

fn enter_all(folder: &OwnedFd, way: &[String]) -> Result<OwnedFd, Error> {
    let mut folder = folder.try_clone()?;
    for name in way {
        folder = walk::enter(&folder, name)?;
    }
    Ok(folder)
}

/// Copies the files of a folder and makes its folders, whose names are returned.
fn members(
    source: &OwnedFd,
    target: &OwnedFd,
    taken: &mut Taken,
    n_left: &mut usize,
) -> Result<Vec<String>, Error> {
    let mut folders = Vec::new();
    for entry in Dir::read_from(source)? {
        let entry = entry?;
        // What cannot be asked for is not copied either.
        let Ok(name) = entry.file_name().to_str() else { continue };
        if name == "." || name == ".." || name.chars().any(char::is_control) {
            continue;
        }
        let kind = FileType::from_raw_mode(walk::look(source, name)?.st_mode);
        if !kind.is_dir() && !kind.is_file() {
            continue;
        }
        *n_left = n_left.checked_sub(1).ok_or(Error::TooMany)?;
        if kind.is_dir() {
            fs::mkdirat(target, name, Mode::from_raw_mode(0o777))?;
            folders.push(name.to_owned());
        } else {
            copied(&mut File::from(property::open(source, name)?), target, name, taken)?;
        }
    }
    Ok(folders)
}

impl Draft for FolderDraft {
    fn write(&mut self, _: &[u8]) -> Result<(), Error> {
        Err(Error::IsFolder)
    }

    fn seal(&mut self, _: Option<&str>) -> Result<(), Error> {
        Ok(())
    }

    fn publish(self: Box<Self>, _: &Permitted<ToWrite>) -> Result<(Facts, bool), Error> {
        Err(Error::IsFolder)
    }

    fn replace(mut self: Box<Self>, path: &Permitted<ToWrite>) -> Result<bool, Error> {
        let name = self.name.take().ok_or(Error::Missing)?;
        let placed = settle(&self.place, &name, path);
        if placed.is_err() {
            self.name = Some(name);
        } else {
            self.taken.keep(0);
        }
        placed
    }
}

impl Drop for FolderDraft {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = clear(&self.place.incoming, name, None);
        }
    }
}

/// Moves a draft to its place, over whatever is there. Was nothing there?
pub(super) fn settle(place: &Arc<Place>, name: &str, path: &FilePath) -> Result<bool, Error> {
    let (folder, target) = walk::to_parent(&place.root, path)?;
    let before = walk::look(&folder, target).ok().filter(is_file);
    if let Some(before) =
        before.filter(|_| walk::look(&place.incoming, name).is_ok_and(|s| is_file(&s)))
    {
        fs::renameat(&place.incoming, name, &folder, target)?;
        place.room.give_back(before.st_size as u64);
        fs::fsync(&folder)?;
        return Ok(false);
    }
    let aside = match Aside::put(place, &folder, target) {
        Ok(aside) => Some(aside),
        Err(Error::Missing) => None,
        Err(error) => return Err(error),
    };
    fs::renameat(&place.incoming, name, &folder, target)?;
    fs::fsync(&folder)?;
    let is_new = aside.is_none();
    aside.into_iter().for_each(|aside| aside.clear(place));
    Ok(is_new)
}
