//! Stores the content of dialects: files, Terraform states and Git LFS objects.
//!
//! All content is in one store with one quota, which leaves a part of the disk free. Published content is visible
//! immediately and durable. The [`Content`] trait separates the dialects from the storage, so that there can be another
//! implementation, such as remote storage. Methods of the trait can block and must run on blocking threads
//! ([`Store::blocking`]).
//!
//! This crate does not decide who can write when: the dialects acquire the lock before they publish content.

mod draft;
mod extent;
mod folders;
mod local;
mod path;
mod permit;
mod property;
mod room;
mod tree;
mod turn;
mod upload;
mod walk;

use std::fmt;
use std::io::{self, Read, Seek};
use std::sync::Arc;

use leasehold_auth::Permitted;
use leasehold_auth::shares::{Client, Full, Shares, Taken};
use leasehold_core::Limits;
use tokio::sync::OwnedMutexGuard;

pub use extent::{
    Extent, Part, Reach, Scope, depth_max, is_tree, members_key, readers_key, tree_key,
};
pub use folders::Folders;
pub use local::Local;
pub use path::{FilePath, NoPath, decode, is_encoded};
pub use permit::{ToRead, ToWrite};
pub use room::Quota;
pub use tree::OPEN_FILES_MAX;
pub use upload::{Unreceived, Upload, receive};

use turn::Turns;

/// One client can use at most `1 / UPLOADS_SHARE` of the concurrent uploads.
const UPLOADS_SHARE: usize = 4;

/// Decides the names of the locks on paths.
pub trait Naming {
    /// Returns the namespace of the locks on files and folders.
    fn namespace(&self) -> &Arc<str>;

    /// Returns the limits of names and of groups of locks.
    fn limits(&self) -> &Limits;
}

/// Counts uploads, for metrics.
pub trait Observer: Send + Sync {
    /// An upload began.
    fn upload_began(&self);

    /// An upload ended, with or without success.
    fn upload_ended(&self);

    /// An upload was refused, because there were too many.
    fn upload_refused(&self);
}

/// Access to the content, shared by all worker threads and dialects. The server creates it once.
#[derive(Clone)]
pub struct Store {
    content: Arc<dyn Content>,
    turns: Turns,
    uploads: Arc<Shares>,
    uploads_max: usize,
    observer: Arc<dyn Observer>,
}

/// Counts one upload, until it is dropped.
pub struct Open {
    _taken: Taken,
    observer: Arc<dyn Observer>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.observer.upload_ended();
    }
}

impl Store {
    /// Wraps `content` and allows at most `uploads_max` concurrent uploads.
    pub fn new(content: Arc<dyn Content>, uploads_max: usize, observer: Arc<dyn Observer>) -> Self {
        let uploads = Shares::new(uploads_max, uploads_max.div_ceil(UPLOADS_SHARE));
        Self { content, turns: Turns::default(), uploads, uploads_max, observer }
    }

    /// Counts an upload until the returned guard is dropped. Fails if the client or the server has too many uploads.
    pub fn upload(&self, client: &Client) -> Result<Open, Error> {
        let taken = self.uploads.take(client, None).map_err(|full| {
            self.observer.upload_refused();
            let is_own = full != Full::All;
            let share = if is_own { UPLOADS_SHARE } else { 1 };
            Error::TooManyUploads { allowed: self.uploads_max.div_ceil(share), is_own }
        })?;
        self.observer.upload_began();
        Ok(Open { _taken: taken, observer: self.observer.clone() })
    }

    /// Returns the size of all files in bytes.
    pub fn n_bytes(&self) -> u64 {
        self.content.n_bytes()
    }

    /// Runs `work` on a thread for blocking operations.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Content) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let content = self.content.clone();
        let done = tokio::task::spawn_blocking(move || work(&*content));
        done.await.unwrap_or(Err(Error::Unknown))
    }

    /// Waits until no other request publishes at this path. Other requests wait until the returned guard is dropped.
    pub async fn turn(&self, path: &FilePath) -> OwnedMutexGuard<()> {
        self.turns.take(path).await
    }

    /// Waits until no request publishes at any path, for changes that affect many paths. Other requests wait until the
    /// returned guards are dropped.
    pub async fn turns(&self) -> Vec<OwnedMutexGuard<()>> {
        self.turns.take_all().await
    }
}

/// Storage for files and folders.
pub trait Content: Send + Sync {
    /// Returns the file or folder at a path, or `None` if the path does not exist.
    fn find(&self, path: &Permitted<ToRead>) -> Result<Option<Found>, Error>;

    /// Returns the time of the last change in milliseconds since 1970. The time of a folder is that of the last change
    /// to its list of entries.
    fn modified_ms(&self, path: &Permitted<ToRead>) -> Option<i64>;

    /// Lists up to `n_max` entries of a folder, sorted by name, starting after the name `after`.
    fn list(
        &self,
        folder: &Permitted<ToRead>,
        after: Option<&str>,
        n_max: usize,
    ) -> Result<Listing, Error>;

    /// Creates an empty draft: a file that has no path until it is published.
    fn draft(&self) -> Result<Box<dyn Draft>, Error>;

    /// Removes a file or an empty folder. The removal is durable.
    fn remove(&self, path: &Permitted<ToWrite>) -> Result<(), Error>;

    /// Removes a file, or a folder with all its content. The removal is durable, and readers see it as a single step.
    fn remove_tree(&self, path: &Permitted<ToWrite>) -> Result<(), Error>;

    /// Moves a file or folder and replaces the target if it exists. The change is durable. Returns whether the target
    /// was free.
    fn rename(
        &self,
        from: &Permitted<ToWrite>,
        to: &Permitted<ToWrite>,
        bounds: Bounds,
    ) -> Result<bool, Error>;

    /// Creates a durable draft that is a copy of a file or folder. `to` is the path at which the caller will publish
    /// it. If `is_deep` is `false`, the copy of a folder is empty.
    fn copy(
        &self,
        source: Source<'_>,
        to: &FilePath,
        is_deep: bool,
        bounds: Bounds,
    ) -> Result<Box<dyn Draft>, Error>;

    /// Returns the properties that clients have set for a file or folder; empty if there are none.
    fn properties(&self, path: &Permitted<ToRead>) -> Result<Vec<u8>, Error>;

    /// Replaces the properties of a file or folder. The change is durable. Returns `false` if the storage cannot keep
    /// properties of this size.
    fn set_properties(&self, path: &Permitted<ToWrite>, bytes: &[u8]) -> Result<bool, Error>;

    /// Creates a folder and its missing parents. The change is durable. Returns whether the folder is new.
    fn make_folder(&self, folder: &Permitted<ToWrite>) -> Result<bool, Error>;

    /// Fails if there is not enough quota or disk space for a file of this size.
    fn check_room(&self, n_bytes: u64) -> Result<(), Error>;

    /// Returns the size of all files in bytes.
    fn n_bytes(&self) -> u64;
}

/// The source of a copy.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The path that is copied.
    pub from: &'a Permitted<ToRead>,
    /// Returns whether the reader can read a path. The copy calls it for each file and folder, because the content of
    /// the source folder can change while it is copied.
    pub may: &'a dyn Fn(&FilePath) -> bool,
}

/// Limits for a folder that is copied or moved.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of files and folders in it.
    pub n_max: usize,
    /// Maximum number of names in a path.
    pub depth_max: usize,
}

/// A file or folder that is not published yet. If it is dropped before that, it is removed.
pub trait Draft: Send {
    /// Appends bytes.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Makes the bytes durable, together with the media type if the client sent one.
    fn seal(&mut self, kind: Option<&str>) -> Result<(), Error>;

    /// Publishes the draft as the file at this path, replacing a file that is there. The change is atomic and durable.
    /// Returns the facts about the file, and whether there was no file before.
    fn publish(self: Box<Self>, path: &Permitted<ToWrite>) -> Result<(Facts, bool), Error>;

    /// Publishes the draft at this path, replacing a file or a folder that is there. The properties of the draft are
    /// kept. Returns whether the path was free.
    fn replace(self: Box<Self>, path: &Permitted<ToWrite>) -> Result<bool, Error>;
}

/// The file or folder at a path.
pub enum Found {
    /// A file, opened for reading.
    File(Facts, Box<dyn Readable>),
    /// A folder.
    Folder,
}

/// The content of a file.
pub trait Readable: Read + Seek + Send {}

impl<T: Read + Seek + Send> Readable for T {}

/// Facts about a file that are known without reading its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last write, in milliseconds since 1970.
    pub modified_ms: i64,
    /// Identifies the content: any two contents of a path have different versions.
    pub version: String,
    /// Media type.
    pub kind: String,
}

/// One page of a folder's entries.
#[derive(Debug, Default)]
pub struct Listing {
    /// The entries, sorted by name.
    pub entries: Vec<Entry>,
    /// `true` if there are more entries after these.
    pub has_more: bool,
}

/// A file or folder in a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The name, without the path.
    pub name: String,
    /// The facts about a file; `None` for a folder.
    pub facts: Option<Facts>,
    /// Time of the last change, in milliseconds since 1970.
    pub modified_ms: i64,
}

/// Why a file operation failed. Dialects map each variant to a different response.
#[derive(Debug)]
pub enum Error {
    /// There is no file or folder at the path.
    Missing,
    /// There is a folder at the path, and the operation needs a file.
    IsFolder,
    /// A parent of the path is not a folder, or the path ends with a slash but is a file.
    NotFolder,
    /// The folder is not empty.
    NotEmpty,
    /// There is neither a file nor a folder at the path, for example a symbolic link. The server does not change it.
    Special,
    /// The folder contains a file or folder that the reader cannot access.
    Denied,
    /// The source was moved or replaced during the copy.
    Changed,
    /// There are more files and folders than one request can copy or move.
    TooMany,
    /// The operation would create a path that is too deep or too long for any request.
    TooDeep {
        /// Maximum number of names in a path.
        allowed: usize,
    },
    /// The disk is full.
    Full,
    /// The size of all files would exceed the quota.
    OverQuota {
        /// Bytes used by all files.
        used: u64,
        /// Quota in bytes.
        allowed: u64,
    },
    /// The disk space that is left is reserved: files must not use it.
    DiskLow {
        /// Free disk space in bytes.
        free: u64,
        /// Bytes that must stay free.
        min: u64,
    },
    /// The process has reached its limit of open files.
    NoFiles,
    /// There are too many concurrent uploads.
    TooManyUploads {
        /// Maximum number of concurrent uploads.
        allowed: usize,
        /// `true` if the client has reached its own limit; `false` if the server has reached the limit for all clients.
        is_own: bool,
    },
    /// Another input or output error.
    Broken(io::Error),
    /// It is not known whether the operation took effect.
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
                "this name exists, but is neither a file nor a folder (perhaps a symbolic link); nothing was changed",
            ),
            Error::TooDeep { allowed } => write!(
                f,
                "a path in it would have more than {allowed} levels (group-max) or 4096 bytes; nothing was changed"
            ),
            Error::Denied => f.write_str("it contains files or folders that you have no right to"),
            Error::Changed => {
                f.write_str("the folder was moved or replaced in the meantime; nothing was changed, repeat the request")
            }
            Error::TooMany => {
                f.write_str("there are too many files and folders; nothing was changed")
            }
            Error::Full => f.write_str("the disk is full; nothing was changed"),
            Error::OverQuota { used, allowed } => write!(
                f,
                "all files together take {used} of {allowed} bytes (files-quota), and a replaced file counts until \
                 its new content is stored; nothing was changed. Delete some files, or raise the setting"
            ),
            Error::DiskLow { free, min } => write!(
                f,
                "the disk has {free} bytes left, and uploads must leave at least {min} free (free-space-min); nothing \
                 was changed. Free disk space"
            ),
            Error::NoFiles => f.write_str(
                "the server has reached its limit of open files (LimitNOFILE, ulimit -n); repeat the request later",
            ),
            Error::TooManyUploads { allowed, is_own } => write!(
                f,
                "too many files are being written{}; limit: {allowed} (open files: LimitNOFILE, ulimit -n); nothing \
                 was changed, repeat the request later",
                if *is_own { " by one principal or anonymous address" } else { "" }
            ),
            Error::Broken(error) => error.fmt(f),
            Error::Unknown => f.write_str("cannot tell whether the change took effect"),
        }
    }
}
