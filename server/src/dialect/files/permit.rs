//! Paths at which somebody may look or change something. The store takes no others.

use std::ops::Deref;

use leasehold_core::LockKey;

use super::Files;
use super::path::FilePath;
use crate::auth::{Caller, Denied, Right, View};

/// A path whose file or folder is to be looked at.
#[derive(Clone, Debug)]
pub(crate) struct ToRead {
    path: FilePath,
    lock: LockKey,
    view: View,
    /// What a reader is told who may look into the folder, if it is one, but not at the file, if it is one.
    only_folder: Option<Denied>,
}

/// A path at which something is to be changed.
#[derive(Clone, Debug)]
pub(crate) struct ToWrite(ToRead);

impl ToRead {
    pub(super) fn new(files: &Files, path: FilePath) -> Self {
        let namespace = files.app.dialect.files.namespace.clone();
        let lock = LockKey::new(namespace, path.as_str());
        Self { path, lock, view: View::default(), only_folder: None }
    }

    /// Whoever may see something in a folder may see the way to it.
    pub(crate) fn govern_by(&mut self, caller: &Caller, view: View) -> Result<(), Denied> {
        self.view = view;
        let Err(denied) = caller.check(Right::FilesRead, &self.lock) else { return Ok(()) };
        let folder = format!("{}/", self.path.as_str().trim_end_matches('/'));
        if !self.view.reaches_into(&self.lock.namespace, &folder) {
            return Err(denied);
        }
        self.only_folder = Some(denied);
        Ok(())
    }

    /// To be asked of everything that is not a folder, also of what is not there.
    pub(super) fn check_file(&self) -> Result<(), Denied> {
        self.only_folder.clone().map_or(Ok(()), Err)
    }

    /// May its reader see this name in the folder?
    pub(super) fn shows(&self, name: &str, is_folder: bool) -> bool {
        let path = format!("{}/{name}", self.path.as_str().trim_end_matches('/'));
        if is_folder && self.view.reaches_into(&self.lock.namespace, &format!("{path}/")) {
            return true;
        }
        self.view.shows(&LockKey { namespace: self.lock.namespace.clone(), name: path.into() })
    }

    pub(super) fn into_path(self) -> FilePath {
        self.path
    }
}

impl ToWrite {
    pub(super) fn new(files: &Files, path: FilePath) -> Self {
        Self(ToRead::new(files, path))
    }

    pub(crate) fn govern_by(&mut self, caller: &Caller, view: View) -> Result<(), Denied> {
        self.0.view = view;
        caller.check(Right::FilesWrite, &self.0.lock)
    }

    pub(crate) fn to_read(&self) -> ToRead {
        self.0.clone()
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
