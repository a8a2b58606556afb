//! Paths at which somebody may look or change something. The store takes no others.

use std::ops::Deref;
use std::sync::Arc;

use leasehold_core::LockKey;

use super::path::FilePath;
use crate::app::App;
use crate::auth::{Caller, Denied, Right, View};

/// A path whose file or folder is to be looked at.
#[derive(Clone, Debug)]
pub(crate) struct ToRead {
    path: FilePath,
    lock: LockKey,
    view: View,
    place: Place,
    /// What a reader is told who may look into the folder, if it is one, but not at the file, if it is one.
    only_folder: Option<Denied>,
    /// Of a folder, everything is listed: for whoever is about to be asked whether they may do something to all of it.
    is_whole: bool,
}

/// What is at a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// A file, whose lock has the name of its path.
    File,
    /// Something of a dialect's own, with a lock of its own.
    Own,
    /// A folder of such things. Who may see which is looked at by the dialect.
    OwnFolder,
}

/// A path at which something is to be changed.
#[derive(Clone, Debug)]
pub(crate) struct ToWrite(ToRead);

impl ToRead {
    pub(crate) fn new(app: &App, path: FilePath) -> Self {
        let namespace = app.dialect.files.namespace.clone();
        let lock = LockKey::new(namespace, path.as_str());
        Self {
            path,
            lock,
            view: View::default(),
            place: Place::File,
            only_folder: None,
            is_whole: false,
        }
    }

    /// The same with all that is in it. What its reader may not see must not be shown to them.
    pub(crate) fn with_all(self) -> Self {
        Self { is_whole: true, ..self }
    }

    /// Something of a dialect's own that is governed by this lock.
    pub(crate) fn own(path: FilePath, lock: LockKey) -> Self {
        Self {
            path,
            lock,
            view: View::default(),
            place: Place::Own,
            only_folder: None,
            is_whole: false,
        }
    }

    /// A folder of a dialect's own, for those who may see anything in the namespace.
    pub(crate) fn own_folder(path: FilePath, namespace: Arc<str>) -> Self {
        let lock = LockKey::new(namespace, "");
        Self {
            path,
            lock,
            view: View::default(),
            place: Place::OwnFolder,
            only_folder: None,
            is_whole: false,
        }
    }

    /// Whoever may see something in a folder may see the way to it.
    pub(crate) fn govern_by(&mut self, caller: &Caller, view: View) -> Result<(), Denied> {
        match self.place {
            Place::File => {}
            Place::Own => return caller.check(Right::FilesRead, &self.lock),
            Place::OwnFolder => {
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

    /// To be asked of everything that is not a folder, also of what is not there.
    pub(crate) fn check_file(&self) -> Result<(), Denied> {
        self.only_folder.clone().map_or(Ok(()), Err)
    }

    /// May its reader see this name in the folder?
    pub(crate) fn shows(&self, name: &str, is_folder: bool) -> bool {
        if self.is_whole || self.place != Place::File {
            return true;
        }
        let path = format!("{}/{name}", self.path.as_str().trim_end_matches('/'));
        if is_folder && self.view.reaches_into(&self.lock.namespace, &format!("{path}/")) {
            return true;
        }
        self.view.shows(&LockKey { namespace: self.lock.namespace.clone(), name: path.into() })
    }

    pub(crate) fn into_path(self) -> FilePath {
        self.path
    }
}

impl ToWrite {
    pub(crate) fn new(app: &App, path: FilePath) -> Self {
        Self(ToRead::new(app, path))
    }

    /// Something of a dialect's own that is governed by this lock.
    pub(crate) fn own(path: FilePath, lock: LockKey) -> Self {
        Self(ToRead::own(path, lock))
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
