//! Removes, moves and copies whole folders as one operation.
//!
//! A removed folder is first moved to the directory of drafts by one rename, so other requests no longer see it. A copy
//! is made in that directory and moved to its target when it is complete. If a server stops before it has cleaned up,
//! the next start removes the leftovers.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{self, AtFlags, Dir, FileType, Mode};
use rustix::io::Errno;

use super::draft::{copied, new_draft};
use super::local::Place;
use super::path::FilePath;
use super::room::{Room, Taken};
use super::{Bounds, Draft, Error, Facts, Source, ToWrite, property, walk};
use leasehold_auth::Permitted;

/// Maximum files and directories that one operation has open at the same time.
pub const OPEN_FILES_MAX: usize = 8;

/// Removes the directory `first` in `incoming`, however deep it is. Nested directories are first moved up to
/// `incoming`, so that the walk never has to go deeper than one level. The freed bytes are returned to `room`.
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
            // A directory that changes while it is read might not return all entries.
            Err(Errno::NOTEMPTY) => folders.push(name),
            removed => removed?,
        }
    }
    Ok(())
}

fn is_file(stat: &fs::Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_file()
}

/// Removes a file, or a folder with all its content. Other requests see this as a single step.
pub(super) fn remove(place: &Arc<Place>, path: &FilePath) -> Result<(), Error> {
    place.room.wait();
    let (folder, name) = walk::to_parent(&place.root, path)?;
    let aside = Removed::put(place, &folder, name)?;
    fs::fsync(&folder)?;
    aside.clear(place);
    Ok(())
}

/// Moves a file or folder and replaces the target if it exists. Returns whether the target was free.
pub(super) fn rename(
    place: &Arc<Place>,
    from: &FilePath,
    to: &FilePath,
    bounds: Bounds,
) -> Result<bool, Error> {
    place.room.wait();
    check_moved(place, from, to, bounds)?;
    let (from_folder, from_name) = walk::to_parent(&place.root, from)?;
    let (to_folder, to_name) = walk::to_parent(&place.root, to)?;
    let moved = walk::look(&from_folder, from_name)?;
    let before = match walk::look(&to_folder, to_name) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(error) => return Err(error.into()),
    };
    let is_new = before.is_none();
    // A single rename replaces a file by a file. Otherwise the target is first moved away.
    let mut aside = None;
    match before {
        Some(before) if is_file(&before) && is_file(&moved) => {
            fs::renameat(&from_folder, from_name, &to_folder, to_name)?;
            place.room.give_back(before.st_size as u64);
        }
        before => {
            if before.is_some() {
                aside = Some(Removed::put(place, &to_folder, to_name)?);
            }
            fs::renameat(&from_folder, from_name, &to_folder, to_name)?;
        }
    }
    fs::fsync(&to_folder)?;
    fs::fsync(&from_folder)?;
    aside.into_iter().for_each(|aside| aside.clear(place));
    Ok(is_new)
}

/// Checks that no path in the moved folder becomes too long or too deep for requests. Paths that do not grow need no
/// check.
fn check_moved(
    place: &Arc<Place>,
    from: &FilePath,
    to: &FilePath,
    bounds: Bounds,
) -> Result<(), Error> {
    let grows =
        to.segments().count() > from.segments().count() || to.as_str().len() > from.as_str().len();
    let (folder, name) = walk::to_parent(&place.root, from)?;
    let is_folder = FileType::from_raw_mode(walk::look(&folder, name)?.st_mode).is_dir();
    if !grows || !is_folder {
        return Ok(());
    }
    let source = walk::enter(&folder, name)?;
    let mut frame = Frame { to, n_left: bounds.n_max, depth_max: bounds.depth_max };
    let mut folders = vec![Vec::<String>::new()];
    while let Some(way) = folders.pop() {
        for (name, kind) in askable(&enter_all(&source, &way)?)? {
            frame.admit(&way, &name)?;
            if kind.is_dir() {
                folders.push([&*way, &[name]].concat());
            }
        }
    }
    Ok(())
}

/// The target of a copied or moved folder, and how many more files and folders it can contain.
struct Frame<'a> {
    to: &'a FilePath,
    n_left: usize,
    depth_max: usize,
}

impl Source<'_> {
    /// Checks the caller's right to an entry just before it is copied, because the entry might be new. Returns `false`
    /// if no request could name the entry.
    fn admit(&self, way: &[String], name: &str) -> Result<bool, Error> {
        let names = way.iter().map(String::as_str).chain([name]);
        let path = names.fold(self.from.as_str().trim_end_matches('/').to_owned(), |path, name| {
            path + "/" + name
        });
        match FilePath::plain(&path) {
            Some(path) if (self.may)(&path) => Ok(true),
            Some(_) => Err(Error::Denied),
            None => Ok(false),
        }
    }

    /// Checks that an open folder is still at its path, because other rights apply to a folder that was moved.
    fn check_place(&self, place: &Place, way: &[String], folder: &OwnedFd) -> Result<(), Error> {
        let moved = |error| match error {
            Error::Missing | Error::NotFolder => Error::Changed,
            // For example, too many open files.
            error => error,
        };
        let now = walk::to_folder(&place.root, self.from).map_err(moved)?;
        let now = enter_all(&now, way).map_err(moved)?;
        let (now, then) = (fs::fstat(&now)?, fs::fstat(folder)?);
        match (now.st_dev, now.st_ino) == (then.st_dev, then.st_ino) {
            true => Ok(()),
            false => Err(Error::Changed),
        }
    }
}

impl Frame<'_> {
    /// Counts one more entry and checks the depth and length of its new path. `way` contains the folders around it.
    fn admit(&mut self, way: &[String], name: &str) -> Result<(), Error> {
        self.n_left = self.n_left.checked_sub(1).ok_or(Error::TooMany)?;
        let depth = self.to.segments().count() + way.len() + 1;
        if depth > self.depth_max || !self.to.fits(way, name) {
            return Err(Error::TooDeep { allowed: self.depth_max });
        }
        Ok(())
    }
}

/// Returns the files and folders in a directory that requests can name.
fn askable(folder: &OwnedFd) -> Result<Vec<(String, FileType)>, Error> {
    let mut all = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if name == "." || name == ".." || name.chars().any(char::is_control) {
            continue;
        }
        let kind = FileType::from_raw_mode(walk::look(folder, name)?.st_mode);
        if kind.is_dir() || kind.is_file() {
            all.push((name.to_owned(), kind));
        }
    }
    Ok(all)
}

/// A file or folder that was moved to the directory of drafts, where requests no longer see it, to be removed.
struct Removed {
    name: String,
    stat: fs::Stat,
}

impl Removed {
    fn put(place: &Arc<Place>, folder: &OwnedFd, name: &str) -> Result<Self, Error> {
        let stat = walk::look(folder, name)?;
        if !matches!(
            FileType::from_raw_mode(stat.st_mode),
            FileType::Directory | FileType::RegularFile
        ) {
            return Err(Error::Special);
        }
        let aside = place.new_name();
        fs::renameat(folder, name, &place.incoming, &aside)?;
        Ok(Self { name: aside, stat })
    }

    /// Deletes the moved file or folder. If that fails, the next start of the server deletes it.
    fn clear(self, place: &Arc<Place>) {
        let cleared = if is_file(&self.stat) {
            let gone = fs::unlinkat(&place.incoming, &self.name, AtFlags::empty());
            gone.map(|()| place.room.give_back(self.stat.st_size as u64)).map_err(Error::from)
        } else {
            clear(&place.incoming, &self.name, Some(&place.room))
        };
        if let Err(error) = cleared {
            tracing::warn!(%error, "could not purge deleted files yet");
        }
    }
}

/// Copies a file or folder to the directory of drafts. If `is_deep` is `false`, the copy of a folder is empty.
pub(super) fn copy(
    place: &Arc<Place>,
    source: Source<'_>,
    to: &FilePath,
    is_deep: bool,
    bounds: Bounds,
) -> Result<Box<dyn Draft>, Error> {
    place.room.check(0)?;
    let (folder, name) = walk::to_parent(&place.root, source.from)?;
    let stat = walk::look(&folder, name)?;
    if is_file(&stat) {
        // The path might have been a folder when the right to it was checked.
        let from: &FilePath = source.from;
        if !(source.may)(from) {
            return Err(Error::Denied);
        }
        let mut draft = new_draft(place)?;
        draft.fill(&mut File::from(property::open(&folder, name)?))?;
        return Ok(Box::new(draft));
    }
    let opened = walk::enter(&folder, name)?;
    let taken = Taken::none(place.room.clone());
    // If copying fails, dropping the draft removes it.
    let mut draft = FolderDraft { place: place.clone(), name: Some(place.new_name()), taken };
    let frame = Frame { to, n_left: bounds.n_max, depth_max: bounds.depth_max };
    draft.fill(&opened, source, is_deep, frame)?;
    Ok(Box::new(draft))
}

/// A folder in the directory of drafts.
struct FolderDraft {
    place: Arc<Place>,
    name: Option<String>,
    taken: Taken,
}

impl FolderDraft {
    fn fill(
        &mut self,
        opened: &OwnedFd,
        source: Source<'_>,
        is_deep: bool,
        mut frame: Frame<'_>,
    ) -> Result<(), Error> {
        let name = self.name.as_deref().ok_or(Error::Missing)?;
        fs::mkdirat(&self.place.incoming, name, Mode::from_raw_mode(0o777))?;
        let target = walk::enter(&self.place.incoming, name)?;
        // The list keeps paths, not open directories: there might be more directories than a process can have open.
        let mut folders = vec![Vec::<String>::new()];
        while let Some(way) = folders.pop() {
            let (from, to) = (enter_all(opened, &way)?, enter_all(&target, &way)?);
            if let Some(properties) = property::read(&from) {
                property::write(&to, &properties)?;
            }
            if is_deep {
                let inner = members((&from, &to), &mut self.taken, (source, &way[..]), &mut frame)?;
                source.check_place(&self.place, &way, &from)?;
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

/// Copies the files of a directory and creates its subdirectories. Returns the names of the subdirectories. Entries
/// that requests cannot name are not copied.
fn members(
    (source, target): (&OwnedFd, &OwnedFd),
    taken: &mut Taken,
    (rights, way): (Source<'_>, &[String]),
    frame: &mut Frame<'_>,
) -> Result<Vec<String>, Error> {
    let mut folders = Vec::new();
    for (name, kind) in askable(source)? {
        frame.admit(way, &name)?;
        if !rights.admit(way, &name)? {
            continue;
        }
        if kind.is_dir() {
            fs::mkdirat(target, &name, Mode::from_raw_mode(0o777))?;
            folders.push(name);
        } else {
            copied(&mut File::from(property::open(source, &name)?), target, &name, taken)?;
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

/// Moves a draft to its path and replaces a file or folder that is there. Returns whether the path was free.
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
    let aside = match Removed::put(place, &folder, target) {
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

#[cfg(test)]
mod tests;
