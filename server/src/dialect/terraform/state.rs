//! A state, and where its versions are.

use leasehold_core::LockKey;

use super::error::Refusal;
use crate::app::App;
use crate::content::{FilePath, Folders, ToRead, ToWrite};

/// In the server's own part of the store.
const FOLDER: &str = "terraform";

/// A state by its name.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Its lock, which has its name.
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

    /// The state that is in these folders, if one can be.
    pub(super) fn of_folders(app: &App, folders: &[String]) -> Option<Self> {
        Self::new(app, Folders::name(folders)?).ok()
    }

    /// A folder of states, to somebody who may see any of them.
    pub(super) fn all_in(app: &App, folders: &[String]) -> ToRead {
        let namespace = app.dialect.terraform.namespace.clone();
        ToRead::own_folder(path(folders, None), namespace)
    }

    /// All its versions.
    pub(super) fn versions(&self) -> ToRead {
        ToRead::own(self.place(), self.lock.clone())
    }

    pub(super) fn to_read(&self, version: u64) -> ToRead {
        ToRead::own(path(self.folders.names(), Some(version)), self.lock.clone())
    }

    pub(super) fn to_write(&self, version: u64) -> ToWrite {
        ToWrite::own(path(self.folders.names(), Some(version)), self.lock.clone())
    }

    /// The folder of its versions.
    pub(super) fn place(&self) -> FilePath {
        path(self.folders.names(), None)
    }
}

/// A version has as many digits as there can be, so that the order of names is that of numbers.
fn path(folders: &[String], version: Option<u64>) -> FilePath {
    let version = version.map(|version| format!("{version:020}"));
    let folders = folders.iter().map(String::as_str);
    FilePath::own([FOLDER].into_iter().chain(folders).chain(version.as_deref()))
}
