//! Writes a file as a draft and publishes it with a single rename.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use super::local::{KIND_ATTRIBUTE, KIND_BYTES_MAX, Place, facts, said_kind};
use super::path::FilePath;
use super::permit::ToWrite;
use super::room::Taken;
use super::{Draft, Error, Facts};
use super::{property, tree, walk};
use leasehold_auth::Permitted;

/// Maximum attempts to publish a file. Another process can remove the new parent directory before the file is moved
/// into it.
const PUBLISH_TRIES: usize = 3;

const COPY_BYTES: usize = 256 * 1024;

/// A file in the directory of drafts.
pub(super) struct LocalDraft {
    place: Arc<Place>,
    /// The name in the directory of drafts; `None` once the draft is published.
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
            // Another process has created it on purpose, so it is not replaced.
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

    /// Copies the properties of the replaced file to the draft: new content does not change the properties of a file.
    fn inherit(&self, folder: &OwnedFd, name: &str) -> Result<(), Error> {
        let before = match property::open(folder, name) {
            Ok(before) => before,
            // The properties must not get lost because of this.
            Err(error @ (Errno::MFILE | Errno::NFILE)) => return Err(error.into()),
            // The file was removed, or has no properties.
            Err(_) => return Ok(()),
        };
        if let Some(properties) = property::read(before) {
            property::write(&self.file, &properties)?;
        }
        Ok(())
    }

    /// Copies a file into the draft, durably.
    pub(super) fn fill(&mut self, source: &mut File) -> Result<(), Error> {
        copy_into(source, &mut self.file, &mut self.taken)
    }
}

impl Drop for LocalDraft {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = fs::unlinkat(&self.place.incoming, name.as_str(), AtFlags::empty());
        }
    }
}

/// Creates a durable copy of a file in a directory.
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
