//! Files in a folder of this machine.
//!
//! A draft is a file in `.leasehold/incoming`; publishing it is one rename, so a reader has the old content or
//! the new. The drafts of a server that did not get that far are removed at the next start.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::{self, AtFlags, Dir, DirEntry, FileType, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use tempfile::TempDir;

use super::path::{FilePath, OWN_FOLDER};
use super::permit::{ToRead, ToWrite};
use super::room::{Room, Space, Taken};
use super::{Bounds, Content, Draft, Entry, Error, Facts, Found, Listing, Quota, Source};
use super::{property, tree, walk};
use crate::auth::Permitted;

/// How often publishing begins anew if somebody removes the folders it just made.
const PUBLISH_TRIES: usize = 3;
/// Where desktops, too, keep what a file is said to be. Not every file system can; then its name decides.
const KIND_ATTRIBUTE: &str = "user.mime_type";
const KIND_BYTES_MAX: usize = 255;

/// Copied at once.
const COPY_BYTES: usize = 256 * 1024;
/// Where drafts are, in our own folder.
const INCOMING: &str = "incoming";

/// A folder.
pub(crate) struct Local {
    place: Arc<Place>,
    /// Removed with everything in it at the end.
    _temporary: Option<TempDir>,
}

/// Where files are, and where they are before they are files.
pub(super) struct Place {
    pub(super) root: OwnedFd,
    pub(super) incoming: OwnedFd,
    n_drafts: AtomicU64,
    pub(super) room: Arc<Room>,
}

impl Place {
    /// For something that is no file yet, or none any more.
    pub(super) fn new_name(&self) -> String {
        format!("{}", self.n_drafts.fetch_add(1, Relaxed))
    }
}

impl Local {
    /// Makes the folder if need be, and removes what an earlier server left unfinished.
    pub(crate) fn open(root: &Path, quota: Quota) -> std::io::Result<Self> {
        crate::probe::folder(root).map_err(std::io::Error::other)?;
        DirBuilder::new().recursive(true).create(root)?;
        let path = root.to_path_buf();
        let root: OwnedFd = File::open(root)?.into();
        let incoming = incoming(&root, &path)?;
        let disk = root.try_clone()?;
        let room = Room::new(quota, move || Ok(space(&disk)?));
        let counted = room.clone();
        // Whoever has many files should not wait for them to be counted to get a lock.
        let count = move || counted.counted(walk::n_bytes(&path));
        std::thread::Builder::new().name("count-files".into()).spawn(count)?;
        let place = Arc::new(Place { root, incoming, n_drafts: AtomicU64::new(0), room });
        Ok(Self { place, _temporary: None })
    }

    /// A folder that is gone with the server.
    pub(crate) fn temporary(quota: Quota) -> std::io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut local = Self::open(folder.path(), quota)?;
        local._temporary = Some(folder);
        Ok(local)
    }
}

impl Content for Local {
    fn find(&self, path: &Permitted<ToRead>) -> Result<Option<Found>, Error> {
        if path.segments().next().is_none() {
            return Ok(Some(Found::Folder));
        }
        let found =
            walk::to_parent(&self.place.root, path).and_then(|(folder, name)| open(&folder, name));
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Error::Missing | Error::NotFolder) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn modified_ms(&self, path: &Permitted<ToRead>) -> Option<i64> {
        let stat = fs::fstat(self.node(path).ok()?).ok()?;
        Some(stat.st_mtime * 1000)
    }

    fn list(
        &self,
        folder: &Permitted<ToRead>,
        after: Option<&str>,
        n_max: usize,
    ) -> Result<Listing, Error> {
        let (asked, is_root) = (folder, folder.segments().next().is_none());
        let folder = walk::to_folder(&self.place.root, folder)?;
        let mut names = BTreeSet::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let is_ours = is_root && name == OWN_FOLDER;
            if is_ours || after.is_some_and(|after| name <= after) || !can_be_asked_for(&entry) {
                continue;
            }
            // What its reader may not see does not count either.
            if !asked.shows(name, entry.file_type() != FileType::RegularFile) {
                continue;
            }
            names.insert(name.to_owned());
            // One more than asked for, to know whether there is more.
            if names.len() > n_max.saturating_add(1) {
                names.pop_last();
            }
        }
        let has_more = names.len() > n_max;
        let shown = names.iter().take(n_max);
        // Whatever was removed since is not there.
        let entries = shown.filter_map(|name| describe(&folder, name).ok()).collect();
        Ok(Listing { entries, has_more })
    }

    fn draft(&self) -> Result<Box<dyn Draft>, Error> {
        Ok(Box::new(new_draft(&self.place)?))
    }

    fn remove(&self, path: &Permitted<ToWrite>) -> Result<(), Error> {
        self.place.room.wait();
        let (folder, name) = walk::to_parent(&self.place.root, path)?;
        let stat = walk::look(&folder, name)?;
        let is_folder = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => true,
            FileType::RegularFile if path.is_folder() => return Err(Error::NotFolder),
            FileType::RegularFile => false,
            _ => return Err(Error::Missing),
        };
        let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        fs::unlinkat(&folder, name, flags)?;
        if !is_folder {
            self.place.room.give_back(stat.st_size as u64);
        }
        Ok(fs::fsync(&folder)?)
    }

    fn make_folder(&self, folder: &Permitted<ToWrite>) -> Result<bool, Error> {
        self.place.room.check(0)?;
        walk::make(&self.place.root, folder.segments()).map(|(_, is_new)| is_new)
    }

    fn remove_tree(&self, path: &Permitted<ToWrite>) -> Result<(), Error> {
        tree::remove(&self.place, path)
    }

    fn rename(
        &self,
        from: &Permitted<ToWrite>,
        to: &Permitted<ToWrite>,
        bounds: Bounds,
    ) -> Result<bool, Error> {
        tree::rename(&self.place, from, to, bounds)
    }

    fn copy(
        &self,
        source: Source<'_>,
        to: &FilePath,
        is_deep: bool,
        bounds: Bounds,
    ) -> Result<Box<dyn Draft>, Error> {
        tree::copy(&self.place, source, to, is_deep, bounds)
    }

    fn properties(&self, path: &Permitted<ToRead>) -> Result<Vec<u8>, Error> {
        Ok(property::read(self.node(path)?).unwrap_or_default())
    }

    fn set_properties(&self, path: &Permitted<ToWrite>, bytes: &[u8]) -> Result<bool, Error> {
        self.place.room.check(bytes.len() as u64)?;
        Ok(property::write(self.node(path)?, bytes)?)
    }

    fn check_room(&self, n_bytes: u64) -> Result<(), Error> {
        self.place.room.check(n_bytes)
    }

    fn n_bytes(&self) -> u64 {
        self.place.room.n_bytes()
    }
}

impl Local {
    /// A file or folder, open.
    fn node(&self, path: &FilePath) -> Result<OwnedFd, Error> {
        if path.segments().next().is_none() {
            return Ok(self.place.root.try_clone()?);
        }
        let (folder, name) = walk::to_parent(&self.place.root, path)?;
        Ok(property::open(&folder, name)?)
    }
}

/// What is left of the disk for programs without privileges.
fn space(folder: &OwnedFd) -> Result<Space, Errno> {
    let disk = fs::fstatvfs(folder)?;
    Ok(Space { total: disk.f_frsize * disk.f_blocks, free: disk.f_frsize * disk.f_bavail })
}

/// A file that is none yet.
pub(super) struct LocalDraft {
    place: Arc<Place>,
    /// `None` once it has become a file.
    name: Option<String>,
    file: File,
    taken: Taken,
}

pub(super) fn new_draft(place: &Arc<Place>) -> Result<LocalDraft, Error> {
    let name = place.new_name();
    let file = create(&place.incoming, &name)?;
    let taken = Taken::none(place.room.clone());
    Ok(LocalDraft { place: place.clone(), name: Some(name), file, taken })
}

fn create(folder: &OwnedFd, name: &str) -> Result<File, Error> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    Ok(File::from(fs::openat(folder, name, flags, mode)?))
}

impl Draft for LocalDraft {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.taken.more(bytes.len() as u64)?;
        Ok(self.file.write_all(bytes)?)
    }

    fn seal(&mut self, kind: Option<&str>) -> Result<(), Error> {
        if let Some(kind) = kind.filter(|kind| kind.len() <= KIND_BYTES_MAX) {
            let _ = fs::fsetxattr(&self.file, KIND_ATTRIBUTE, kind.as_bytes(), XattrFlags::empty());
        }
        Ok(self.file.sync_all()?)
    }

    fn publish(mut self: Box<Self>, path: &Permitted<ToWrite>) -> Result<(Facts, bool), Error> {
        for _ in 1..PUBLISH_TRIES {
            match self.rename(path) {
                Err(Error::Missing) => {}
                published => return published,
            }
        }
        self.rename(path)
    }

    fn replace(mut self: Box<Self>, path: &Permitted<ToWrite>) -> Result<bool, Error> {
        let name = self.name.clone().ok_or(Error::Missing)?;
        let is_new = tree::settle(&self.place, &name, path)?;
        self.name = None;
        self.taken.keep(0);
        Ok(is_new)
    }
}

impl LocalDraft {
    fn rename(&mut self, path: &FilePath) -> Result<(Facts, bool), Error> {
        let names: Vec<_> = path.segments().collect();
        let Some((name, around)) = names.split_last() else { return Err(Error::IsFolder) };
        let (folder, _) = walk::make(&self.place.root, around.iter().copied())?;
        let before = match walk::look(&folder, name) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_dir() => {
                return Err(Error::IsFolder);
            }
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_file() => {
                Some(stat.st_size as u64)
            }
            // Whoever put it there had a reason.
            Ok(_) => return Err(Error::Special),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
        };
        if before.is_some() {
            self.inherit(&folder, name)?;
        }
        let draft = self.name.as_deref().ok_or(Error::Missing)?;
        fs::renameat(&self.place.incoming, draft, &folder, *name)?;
        self.name = None;
        self.taken.keep(before.unwrap_or(0));
        fs::fsync(&folder)?;
        Ok((facts(&self.file, name)?, before.is_none()))
    }

    /// Another content does not change what was said of the file.
    fn inherit(&self, folder: &OwnedFd, name: &str) -> Result<(), Error> {
        let before = match property::open(folder, name) {
            Ok(before) => before,
            // It is gone, or nothing that has properties.
            Err(_) => return Ok(()),
        };
        if let Some(properties) = property::read(before) {
            property::write(&self.file, &properties)?;
        }
        Ok(())
    }

    /// Becomes a copy of a file, durably.
    pub(super) fn fill(&mut self, source: &mut File) -> Result<(), Error> {
        copy_into(source, &mut self.file, &mut self.taken)
    }
}

/// Makes a copy of a file in a folder, durably.
pub(super) fn copied(
    source: &mut File,
    folder: &OwnedFd,
    name: &str,
    taken: &mut Taken,
) -> Result<(), Error> {
    copy_into(source, &mut create(folder, name)?, taken)
}

fn copy_into(source: &mut File, target: &mut File, taken: &mut Taken) -> Result<(), Error> {
    let mut piece = vec![0; COPY_BYTES];
    loop {
        let n_bytes = source.read(&mut piece)?;
        if n_bytes == 0 {
            break;
        }
        taken.more(n_bytes as u64)?;
        target.write_all(&piece[..n_bytes])?;
    }
    if let Some(kind) = said_kind(source) {
        let _ = fs::fsetxattr(&target, KIND_ATTRIBUTE, kind.as_bytes(), XattrFlags::empty());
    }
    if let Some(properties) = property::read(&source) {
        property::write(&target, &properties)?;
    }
    Ok(target.sync_all()?)
}

impl Drop for LocalDraft {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = fs::unlinkat(&self.place.incoming, name.as_str(), AtFlags::empty());
        }
    }
}

/// The folder of drafts, empty. Never through a link: what it leads to is not ours to clean up.
fn incoming(root: &OwnedFd, path: &Path) -> std::io::Result<OwnedFd> {
    let drafts = walk::make(root, [OWN_FOLDER, INCOMING].into_iter());
    let (incoming, _) = drafts.map_err(|error| match error {
        Error::NotFolder => {
            let own = path.join(OWN_FOLDER);
            let why = format!("{0} or {0}/{INCOMING} is not a folder, or is a link", own.display());
            std::io::Error::new(ErrorKind::NotADirectory, why)
        }
        Error::Broken(error) => error,
        other => std::io::Error::other(format!("{}: {other:?}", path.display())),
    })?;
    remove_all(&incoming)?;
    Ok(incoming)
}

fn remove_all(folder: &OwnedFd) -> std::io::Result<()> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        match fs::unlinkat(folder, name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => {
                let name = name.to_str().unwrap_or_default();
                tree::clear(folder, name, None)
                    .map_err(|why| std::io::Error::other(why.to_string()))?;
            }
            removed => removed?,
        }
    }
    Ok(())
}

fn open(folder: &OwnedFd, name: &str) -> Result<Found, Error> {
    // Opening a pipe would wait for its other end.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = fs::openat(folder, name, flags, Mode::empty());
    // A socket or a device nobody serves cannot be opened at all.
    let is_none = matches!(opened, Err(Errno::NXIO | Errno::NODEV));
    let file = File::from(if is_none { return Err(Error::Missing) } else { opened? });
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Ok(Found::Folder);
    }
    if !kind.is_file() {
        return Err(Error::Missing);
    }
    Ok(Found::File(facts(&file, name)?, Box::new(file)))
}

/// Links and pipes cannot, so they are not shown either; nor can names no request can spell.
fn can_be_asked_for(entry: &DirEntry) -> bool {
    let name = entry.file_name().to_bytes();
    let kinds = [FileType::RegularFile, FileType::Directory, FileType::Unknown];
    let is_spelt = !name.iter().any(u8::is_ascii_control) && name != b"." && name != b"..";
    is_spelt && kinds.contains(&entry.file_type())
}

fn describe(folder: &OwnedFd, name: &str) -> Result<Entry, Error> {
    let (facts, modified_ms) = match open(folder, name)? {
        Found::File(facts, _) => (Some(facts.clone()), facts.modified_ms),
        Found::Folder => (None, walk::look(folder, name)?.st_mtime * 1000),
    };
    Ok(Entry { name: name.into(), facts, modified_ms })
}

fn facts(file: &File, name: &str) -> Result<Facts, Error> {
    let data = file.metadata()?;
    let (seconds, nanos) = (data.mtime(), data.mtime_nsec());
    Ok(Facts {
        size: data.len(),
        modified_ms: seconds * 1000 + nanos / 1_000_000,
        // Every content is a file of its own, so even the same size at the same instant is another version.
        version: format!("{:x}-{seconds:x}{nanos:08x}-{:x}", data.ino(), data.len()),
        kind: said_kind(file).unwrap_or_else(|| kind_of(name)),
    })
}

fn said_kind(file: &File) -> Option<String> {
    let mut kind = [0; KIND_BYTES_MAX];
    let length = fs::fgetxattr(file, KIND_ATTRIBUTE, &mut kind).ok()?;
    let kind = std::str::from_utf8(&kind[..length]).ok()?;
    kind.bytes().all(|byte| matches!(byte, b' '..=b'~')).then(|| kind.into())
}

fn kind_of(name: &str) -> String {
    mime_guess::from_path(name).first_or_octet_stream().to_string()
}
