//! Keeps files in a directory of the local file system.
//!
//! A draft is a file in `.leasehold/incoming`. Publishing a draft is a single rename, so a reader sees either the old
//! content or the new content. At startup the server removes drafts that an earlier server did not publish.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::{self, AtFlags, Dir, DirEntry, FileType, Mode, OFlags};
use rustix::io::Errno;
use tempfile::TempDir;

use super::draft::new_draft;
use super::path::{FilePath, OWN_FOLDER};
use super::permit::{ToRead, ToWrite};
use super::room::{Room, Space};
use super::{Bounds, Content, Draft, Entry, Error, Facts, Found, Listing, Quota, Source};
use super::{property, tree, walk};
use leasehold_auth::Permitted;

/// Extended attribute for the media type; desktops use the same name. If the file system does not support attributes,
/// the media type follows from the file name.
pub(super) const KIND_ATTRIBUTE: &str = "user.mime_type";
pub(super) const KIND_BYTES_MAX: usize = 255;

/// The directory for drafts, in the server's own directory.
const INCOMING: &str = "incoming";

/// Content in a directory.
pub struct Local {
    place: Arc<Place>,
    /// Removes the directory when the server stops.
    _temporary: Option<TempDir>,
}

/// The directory of the files and the directory of their drafts.
pub(super) struct Place {
    pub(super) root: OwnedFd,
    pub(super) incoming: OwnedFd,
    n_drafts: AtomicU64,
    pub(super) room: Arc<Room>,
}

impl Place {
    /// Returns a new name in the directory of drafts.
    pub(super) fn new_name(&self) -> String {
        format!("{}", self.n_drafts.fetch_add(1, Relaxed))
    }
}

impl Local {
    /// Opens the directory, creating it if it is missing, and removes unpublished drafts of an earlier server.
    pub fn open(root: &Path, quota: Quota) -> std::io::Result<Self> {
        leasehold_base::probe::folder(root).map_err(std::io::Error::other)?;
        DirBuilder::new().recursive(true).create(root)?;
        let path = root.to_path_buf();
        let root: OwnedFd = File::open(root)?.into();
        let incoming = incoming(&root, &path)?;
        let disk = root.try_clone()?;
        let room = Room::new(quota, move || Ok(space(&disk)?));
        let counted = room.clone();
        // Counting many files takes time, and locks must be available in the meantime.
        let count = move || counted.counted(walk::n_bytes(&path));
        std::thread::Builder::new().name("count-files".into()).spawn(count)?;
        let place = Arc::new(Place { root, incoming, n_drafts: AtomicU64::new(0), room });
        Ok(Self { place, _temporary: None })
    }

    /// Creates a temporary directory that is removed when the server stops.
    pub fn temporary(quota: Quota) -> std::io::Result<Self> {
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
            // Entries that the reader cannot see do not count either.
            if !asked.shows(name, entry.file_type() != FileType::RegularFile) {
                continue;
            }
            names.insert(name.to_owned());
            // One entry more than requested shows whether the list continues.
            if names.len() > n_max.saturating_add(1) {
                names.pop_last();
            }
        }
        let has_more = names.len() > n_max;
        let shown = names.iter().take(n_max);
        // Entries that were removed in the meantime are left out.
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
    /// Opens a file or directory.
    fn node(&self, path: &FilePath) -> Result<OwnedFd, Error> {
        if path.segments().next().is_none() {
            return Ok(self.place.root.try_clone()?);
        }
        let (folder, name) = walk::to_parent(&self.place.root, path)?;
        Ok(property::open(&folder, name)?)
    }
}

/// Returns the disk space that is available to unprivileged processes.
fn space(folder: &OwnedFd) -> Result<Space, Errno> {
    let disk = fs::fstatvfs(folder)?;
    Ok(Space { total: disk.f_frsize * disk.f_blocks, free: disk.f_frsize * disk.f_bavail })
}

/// Opens the directory of drafts and empties it. It never follows a symbolic link, because the target of the link might
/// belong to another program.
fn incoming(root: &OwnedFd, path: &Path) -> std::io::Result<OwnedFd> {
    let drafts = walk::make(root, [OWN_FOLDER, INCOMING].into_iter());
    let (incoming, _) = drafts.map_err(|error| match error {
        Error::NotFolder => {
            let own = path.join(OWN_FOLDER);
            let why =
                format!("{0} or {0}/{INCOMING} is not a directory, or is a link", own.display());
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
    // Without `NONBLOCK`, opening a pipe would wait for its other end.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = fs::openat(folder, name, flags, Mode::empty());
    // A socket or a device without a driver cannot be opened.
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

/// Returns whether a request can name this entry. Links, pipes and names with control characters cannot be requested,
/// so lists do not contain them.
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

pub(super) fn facts(file: &File, name: &str) -> Result<Facts, Error> {
    let data = file.metadata()?;
    let (seconds, nanos) = (data.mtime(), data.mtime_nsec());
    Ok(Facts {
        size: data.len(),
        modified_ms: seconds * 1000 + nanos / 1_000_000,
        // Each content is a new file (inode), so the version changes even if size and time stay the same.
        version: format!("{:x}-{seconds:x}{nanos:08x}-{:x}", data.ino(), data.len()),
        kind: said_kind(file).unwrap_or_else(|| kind_of(name)),
    })
}

pub(super) fn said_kind(file: &File) -> Option<String> {
    let mut kind = [0; KIND_BYTES_MAX];
    let length = fs::fgetxattr(file, KIND_ATTRIBUTE, &mut kind).ok()?;
    let kind = std::str::from_utf8(&kind[..length]).ok()?;
    kind.bytes().all(|byte| matches!(byte, b' '..=b'~')).then(|| kind.into())
}

fn kind_of(name: &str) -> String {
    mime_guess::from_path(name).first_or_octet_stream().to_string()
}
