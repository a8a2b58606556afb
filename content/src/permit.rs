//! Paths that a caller has the right to read or change. The store accepts no other paths.

use std::ops::Deref;
use std::sync::Arc;

use leasehold_auth::purpose::{Existence, Inclusion};
use leasehold_auth::{Caller, Denied, Exempt, Includes, Right, View};
use leasehold_core::LockKey;

use super::Naming;
use super::path::FilePath;
use leasehold_auth::governed;

/// A path to read.
#[derive(Clone, Debug)]
pub struct ToRead {
    path: FilePath,
    lock: LockKey,
    view: View,
    place: PathKind,
    /// Set if the caller can read files below this path, but not a file at this path. Contains the refusal for the
    /// latter.
    only_folder: Option<Denied>,
    /// Lists everything in a folder, to check whether the caller has a right to all of it. Otherwise entries that the
    /// caller cannot see are left out.
    is_whole: bool,
}

/// The kind of a path, which decides how rights are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PathKind {
    /// A file or folder; the name of its lock is its path.
    File,
    /// An object of a dialect, such as a Git LFS object, with a lock that the dialect chooses.
    Own,
    /// A folder of such objects. The dialect checks which of them a caller can see.
    OwnFolder,
}

/// A path to change.
#[derive(Clone, Debug)]
pub struct ToWrite(ToRead);

governed! {
    ToRead: |asked, caller| asked.govern_by(caller, caller.view(Right::FilesRead));
    ToWrite: |asked, caller| asked.govern_by(caller, caller.view(Right::FilesRead));
}

impl Exempt<Existence> for ToRead {}
impl Exempt<Inclusion> for ToRead {}

/// The right to write a file includes the right to read it.
impl Includes for ToWrite {
    type Read = ToRead;

    fn to_read(&self) -> ToRead {
        self.0.clone()
    }
}

impl ToRead {
    /// Returns the path of a file or folder.
    pub fn new(names: &impl Naming, path: FilePath) -> Self {
        let namespace = names.namespace().clone();
        let lock = LockKey::new(namespace, path.as_str());
        Self {
            path,
            lock,
            view: View::default(),
            place: PathKind::File,
            only_folder: None,
            is_whole: false,
        }
    }

    /// Lists all entries of the folder, including entries that the caller cannot see. They must not be shown to the
    /// caller.
    pub fn with_all(self) -> Self {
        Self { is_whole: true, ..self }
    }

    /// Returns a path of a dialect's object, which is governed by this lock.
    pub fn own(path: FilePath, lock: LockKey) -> Self {
        Self {
            path,
            lock,
            view: View::default(),
            place: PathKind::Own,
            only_folder: None,
            is_whole: false,
        }
    }

    /// Returns a folder of a dialect's objects. Callers can list it if they can see anything in the namespace.
    pub fn own_folder(path: FilePath, namespace: Arc<str>) -> Self {
        let lock = LockKey::new(namespace, "");
        Self {
            path,
            lock,
            view: View::default(),
            place: PathKind::OwnFolder,
            only_folder: None,
            is_whole: false,
        }
    }

    /// Checks that the caller has the right to read. A caller that can see anything in a folder can also see the
    /// folders around it.
    fn govern_by(&mut self, caller: &Caller, view: View) -> Result<(), Denied> {
        match self.place {
            PathKind::File => {}
            PathKind::Own => return caller.check(Right::FilesRead, &self.lock),
            PathKind::OwnFolder => {
                return caller.check_somewhere(Right::FilesRead, Some(&self.lock.namespace));
            }
        }
        self.view = view;
        let Err(denied) = caller.check(Right::FilesRead, &self.lock) else { return Ok(()) };
        let folder = format!("{}/", self.path.as_str().trim_end_matches('/'));
        if !self.view.reaches_into(&self.lock.namespace, &folder) {
            return Err(denied);
        }
        self.only_folder = Some(denied);
        Ok(())
    }

    /// Checks that the caller can read a file at this path. Call it unless there is a folder, even if the path does not
    /// exist.
    pub fn check_file(&self) -> Result<(), Denied> {
        self.only_folder.clone().map_or(Ok(()), Err)
    }

    /// Returns whether the caller can see the entry with this name in the folder.
    pub fn shows(&self, name: &str, is_folder: bool) -> bool {
        if self.is_whole || self.place != PathKind::File {
            return true;
        }
        let path = format!("{}/{name}", self.path.as_str().trim_end_matches('/'));
        if is_folder && self.view.reaches_into(&self.lock.namespace, &format!("{path}/")) {
            return true;
        }
        self.view.shows(&LockKey { namespace: self.lock.namespace.clone(), name: path.into() })
    }

    /// Returns the path alone.
    pub fn into_path(self) -> FilePath {
        self.path
    }
}

impl ToWrite {
    /// Returns the path of a file or folder.
    pub fn new(names: &impl Naming, path: FilePath) -> Self {
        Self(ToRead::new(names, path))
    }

    /// Returns a path of a dialect's object, which is governed by this lock.
    pub fn own(path: FilePath, lock: LockKey) -> Self {
        Self(ToRead::own(path, lock))
    }

    fn govern_by(&mut self, caller: &Caller, view: View) -> Result<(), Denied> {
        self.0.view = view;
        caller.check(Right::FilesWrite, &self.0.lock)
    }
}

impl Deref for ToRead {
    type Target = FilePath;

    fn deref(&self) -> &FilePath {
        &self.path
    }
}

impl Deref for ToWrite {
    type Target = FilePath;

    fn deref(&self) -> &FilePath {
        &self.0.path
    }
}
