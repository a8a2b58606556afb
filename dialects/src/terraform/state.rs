//! A state, and where its versions are stored.

use leasehold_core::LockKey;

use super::error::Refusal;
use crate::app::App;
use crate::content::{FilePath, Folders, ToRead, ToWrite};

/// The folder of all states, in the server's own part of the store.
const FOLDER: &str = "terraform";

/// A state, identified by its name.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// The lock of the state, which has the same name.
    pub(super) lock: LockKey,
    folders: Folders,
}

impl State {
    pub(super) fn new(app: &App, name: String) -> Result<Self, Refusal> {
        let folders = Folders::of(&name);
        let lock = LockKey::new(app.dialect.terraform.namespace.clone(), name);
        app.limits.check_key(&lock)?;
        Ok(Self { lock, folders })
    }

    /// Returns the state that is stored in these folders, if they can contain one.
    pub(super) fn of_folders(app: &App, folders: &[String]) -> Option<Self> {
        Self::new(app, Folders::name(folders)?).ok()
    }

    /// Returns a folder of states, for callers that can see at least one state.
    pub(super) fn all_in(app: &App, folders: &[String]) -> ToRead {
        let namespace = app.dialect.terraform.namespace.clone();
        ToRead::own_folder(path(folders, None), namespace)
    }

    /// Returns the folder of the state's versions, to be read.
    pub(super) fn versions(&self) -> ToRead {
        ToRead::own(self.place(), self.lock.clone())
    }

    pub(super) fn to_read(&self, version: u64) -> ToRead {
        ToRead::own(path(self.folders.names(), Some(version)), self.lock.clone())
    }

    pub(super) fn to_write(&self, version: u64) -> ToWrite {
        ToWrite::own(path(self.folders.names(), Some(version)), self.lock.clone())
    }

    /// Returns the path of the folder with the state's versions.
    pub(super) fn place(&self) -> FilePath {
        path(self.folders.names(), None)
    }
}

/// Returns the path of a version. Its number is padded with zeros, so that the names sort like the numbers.
fn path(folders: &[String], version: Option<u64>) -> FilePath {
    let version = version.map(|version| format!("{version:020}"));
    let folders = folders.iter().map(String::as_str);
    FilePath::own([FOLDER].into_iter().chain(folders).chain(version.as_deref()))
}
