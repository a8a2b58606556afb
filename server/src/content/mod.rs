//! Where dialects keep content: files, the states of Terraform, the objects of Git LFS. One place for all of it, with
//! one quota, and the rest of the disk left free; what is published is there at once and durably. A small trait, so
//! that another kind of storage is another implementation.
//!
//! Everything behind the trait blocks and is called where that is allowed; a remote storage can wait for its network
//! there. Who may write when is not decided here: the lock is taken before anything is published.

mod extent;
mod folders;
mod local;
mod path;
mod permit;
mod property;
mod room;
mod stream;
mod tree;
mod turn;
mod upload;
mod walk;

use std::fmt;
use std::io::{self, Read, Seek};
use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

pub(crate) use extent::{
    Extent, Part, Reach, Scope, depth_max, is_tree, members_key, readers_key, tree_key,
};
pub(crate) use folders::Folders;
pub(crate) use local::Local;
pub(crate) use path::{FilePath, NoPath};
pub(crate) use permit::{ToRead, ToWrite};
pub(crate) use room::Quota;
pub(crate) use stream::stream;
pub(crate) use upload::{Unreceived, Upload, receive};

use crate::auth::Permitted;
use crate::http::shares::{Client, Full, Shares};
use crate::metrics::Metrics;
use turn::Turns;

/// Of the files that can be written at the same time, one client has at most one of so many.
const UPLOADS_SHARE: usize = 4;

/// What all workers and all paths that lead to some content share. Made once, with the server.
#[derive(Clone)]
pub(crate) struct Store {
    content: Arc<dyn Content>,
    turns: Turns,
    uploads: Arc<Shares>,
    uploads_max: usize,
    metrics: Arc<Metrics>,
}

/// A file that is written counts until this is dropped.
pub(crate) struct Open {
    _taken: crate::http::shares::Taken,
    metrics: Arc<Metrics>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.metrics.uploads.dec();
    }
}

impl Store {
    /// Content with a limit of files that are written at the same time.
    pub(crate) fn new(
        content: Arc<dyn Content>,
        uploads_max: usize,
        metrics: Arc<Metrics>,
    ) -> Self {
        let uploads = Shares::new(uploads_max, uploads_max.div_ceil(UPLOADS_SHARE));
        Self { content, turns: Turns::default(), uploads, uploads_max, metrics }
    }

    /// Counts one more file that is written, until the returned guard is dropped.
    pub(crate) fn upload(&self, client: &Client) -> Result<Open, Error> {
        let taken = self.uploads.take(client, None).map_err(|full| {
            self.metrics.refusals.count("uploads");
            let is_own = full != Full::All;
            let share = if is_own { UPLOADS_SHARE } else { 1 };
            Error::TooManyUploads { allowed: self.uploads_max.div_ceil(share), is_own }
        })?;
        self.metrics.uploads.inc();
        Ok(Open { _taken: taken, metrics: self.metrics.clone() })
    }

    /// How many bytes there are together.
    pub(crate) fn n_bytes(&self) -> u64 {
        self.content.n_bytes()
    }

    /// Runs what blocks where that is allowed.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Content) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let content = self.content.clone();
        let done = tokio::task::spawn_blocking(move || work(&*content));
        done.await.unwrap_or(Err(Error::Unknown))
    }

    /// Waits until nobody else publishes at this path, and lets nobody until dropped.
    pub(crate) async fn turn(&self, path: &FilePath) -> OwnedMutexGuard<()> {
        self.turns.take(path).await
    }

    /// Waits until nobody publishes anywhere: for what concerns many paths.
    pub(crate) async fn turns(&self) -> Vec<OwnedMutexGuard<()>> {
        self.turns.take_all().await
    }
}

/// A place for files.
pub(crate) trait Content: Send + Sync {
    /// What is at a path, if anything.
    fn find(&self, path: &Permitted<ToRead>) -> Result<Option<Found>, Error>;

    /// When a file or folder was changed, in milliseconds since 1970; of a folder, when what is in it was.
    fn modified_ms(&self, path: &Permitted<ToRead>) -> Option<i64>;

    /// Some of what is in a folder: by name, after the name `after`, at most `n_max`.
    fn list(
        &self,
        folder: &Permitted<ToRead>,
        after: Option<&str>,
        n_max: usize,
    ) -> Result<Listing, Error>;

    /// A file that is not one yet.
    fn draft(&self) -> Result<Box<dyn Draft>, Error>;

    /// Removes a file or an empty folder, durably.
    fn remove(&self, path: &Permitted<ToWrite>) -> Result<(), Error>;

    /// Removes a file or a folder with everything in it, durably and to everybody at once.
    fn remove_tree(&self, path: &Permitted<ToWrite>) -> Result<(), Error>;

    /// Moves a file or folder in place of what is there, durably. Was nothing there?
    fn rename(
        &self,
        from: &Permitted<ToWrite>,
        to: &Permitted<ToWrite>,
        bounds: Bounds,
    ) -> Result<bool, Error>;

    /// A copy of a file or folder that is none yet and is to go to a path, durable: with everything in the folder, or
    /// without.
    fn copy(
        &self,
        source: Source<'_>,
        to: &FilePath,
        is_deep: bool,
        bounds: Bounds,
    ) -> Result<Box<dyn Draft>, Error>;

    /// What clients keep with a file or folder beside its content; empty if nothing.
    fn properties(&self, path: &Permitted<ToRead>) -> Result<Vec<u8>, Error>;

    /// Keeps something else with it, durably. `false`: that is more than can be kept.
    fn set_properties(&self, path: &Permitted<ToWrite>, bytes: &[u8]) -> Result<bool, Error>;

    /// Makes a folder and those around it, durably. Was it not there before?
    fn make_folder(&self, folder: &Permitted<ToWrite>) -> Result<bool, Error>;

    /// Says why there would be no room for a file of this size.
    fn check_room(&self, n_bytes: u64) -> Result<(), Error>;

    /// Bytes of all files together.
    fn n_bytes(&self) -> u64;
}

/// The source of a copy.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) from: &'a Permitted<ToRead>,
    /// May the reader read this path? Checked for each file and folder when it is copied, because a folder's content
    /// changes.
    pub(crate) may: &'a dyn Fn(&FilePath) -> bool,
}

/// What a tree of folders may be where it is to go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Most files and folders that are looked at.
    pub(crate) n_max: usize,
    /// Most names of a path.
    pub(crate) depth_max: usize,
}

/// Bytes on their way to becoming a file. Dropped, it leaves nothing behind.
pub(crate) trait Draft: Send {
    /// Adds bytes.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Makes its bytes durable, with what they are said to be.
    fn seal(&mut self, kind: Option<&str>) -> Result<(), Error>;

    /// Becomes the file of this path at once and durably, in place of what was there. Was there none?
    fn publish(self: Box<Self>, path: &Permitted<ToWrite>) -> Result<(Facts, bool), Error>;

    /// The same in place of whatever was there, a folder too, with what is kept with the draft. Was nothing there?
    fn replace(self: Box<Self>, path: &Permitted<ToWrite>) -> Result<bool, Error>;
}

/// What is at a path.
pub(crate) enum Found {
    /// A file, open.
    File(Facts, Box<dyn Readable>),
    /// A folder.
    Folder,
}

/// Where a file's bytes come from.
pub(crate) trait Readable: Read + Seek + Send {}

impl<T: Read + Seek + Send> Readable for T {}

/// What is known of a file without reading it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    /// In bytes.
    pub(crate) size: u64,
    /// When it was written, in milliseconds since 1970.
    pub(crate) modified_ms: i64,
    /// Differs between any two contents of a path.
    pub(crate) version: String,
    /// What it is, as a media type.
    pub(crate) kind: String,
}

/// Some of what is in a folder.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// In the order of their names.
    pub(crate) entries: Vec<Entry>,
    /// Is there more?
    pub(crate) has_more: bool,
}

/// One thing in a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// Its name.
    pub(crate) name: String,
    /// Of a file; `None` for a folder.
    pub(crate) facts: Option<Facts>,
    /// When it was written, in milliseconds since 1970.
    pub(crate) modified_ms: i64,
}

/// Why not. Each kind asks for another answer.
#[derive(Debug)]
pub(crate) enum Error {
    /// There is nothing.
    Missing,
    /// It is a folder, and a file was meant.
    IsFolder,
    /// Something on the way is no folder, or is no file.
    NotFolder,
    /// The folder has something in it.
    NotEmpty,
    /// There is something that is neither a file nor a folder, and so not for us to touch.
    Special,
    /// The folder contains something that the reader has no right to.
    Denied,
    /// The source was moved or replaced during the copy.
    Changed,
    /// There are more files and folders than may be copied at once.
    TooMany,
    /// Something would be so deep in folders, or have so long a path, that nobody could ask for it.
    TooDeep {
        /// How many names a path may have.
        allowed: usize,
    },
    /// There is no room.
    Full,
    /// All files together would take up more than they may.
    OverQuota {
        /// What they take up.
        used: u64,
        /// What they may.
        allowed: u64,
    },
    /// The rest of the disk is not for files.
    DiskLow {
        /// What is left of it.
        free: u64,
        /// What must be left of it.
        min: u64,
    },
    /// Too many files are open.
    NoFiles,
    /// Too many files are being written.
    TooManyUploads {
        /// How many there may be.
        allowed: usize,
        /// Those of this client; otherwise those of all.
        is_own: bool,
    },
    /// Something else went wrong.
    Broken(io::Error),
    /// It is not known what was done.
    Unknown,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Missing => f.write_str("there is no such file or folder"),
            Error::IsFolder => f.write_str("there is a folder of this name"),
            Error::NotFolder => f.write_str("a part of the path is not a folder"),
            Error::NotEmpty => f.write_str("the folder is not empty"),
            Error::Special => f.write_str(
                "there is something of this name that is neither a file nor a folder (perhaps a symbolic link); it is \
                 left as it is",
            ),
            Error::TooDeep { allowed } => write!(
                f,
                "something in it would be more than {allowed} names deep (group-max), or have a path longer than 4096 \
                 bytes; nothing was changed"
            ),
            Error::Denied => f.write_str("it contains something that you have no right to"),
            Error::Changed => {
                f.write_str("the folder was moved or replaced in the meantime; nothing was changed, repeat the request")
            }
            Error::TooMany => {
                f.write_str("there are too many files and folders; nothing was changed")
            }
            Error::Full => f.write_str("the disk is full; nothing was changed"),
            Error::OverQuota { used, allowed } => write!(
                f,
                "all files together may take {allowed} bytes (files-quota) and take {used}, and what is replaced \
                 counts until the new content is there; nothing was changed. Delete some, or raise the setting"
            ),
            Error::DiskLow { free, min } => write!(
                f,
                "the disk has {free} bytes left, and files leave at least {min} of it free (free-space-min); nothing \
                 was changed. Make room on the disk"
            ),
            Error::NoFiles => f.write_str(
                "the server has reached its limit of open files (LimitNOFILE, ulimit -n); repeat the request later",
            ),
            Error::TooManyUploads { allowed, is_own } => write!(
                f,
                "too many files are being written{}: {allowed} allowed (the limit of open files: LimitNOFILE, ulimit \
                 -n); nothing was changed, repeat the request later",
                if *is_own { " by one principal or anonymous address" } else { "" }
            ),
            Error::Broken(error) => error.fmt(f),
            Error::Unknown => f.write_str("it is not known whether something was changed"),
        }
    }
}
