//! A state, and where its versions are.

use leasehold_core::LockKey;
use percent_encoding::percent_decode_str;

use super::error::Refusal;
use crate::app::App;
use crate::content::{FilePath, ToRead, ToWrite};

/// In the server's own part of the store.
const FOLDER: &str = "terraform";
/// File systems take names of 255 bytes. A longer name of a state is a folder in a folder.
const PIECE_BYTES: usize = 250;
/// What a name goes on in ends with this, which no name does.
const GOES_ON: char = '+';

/// A state by its name.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Its lock, which has its name.
    pub(super) lock: LockKey,
    folders: Vec<String>,
}

impl State {
    pub(super) fn new(app: &App, name: String) -> Result<Self, Refusal> {
        let folders = folders(&name);
        let lock = LockKey::new(app.dialect.terraform.namespace.clone(), name);
        app.limits.check_key(&lock)?;
        Ok(Self { lock, folders })
    }

    /// The state that is in these folders, if one can be.
    pub(super) fn of_folders(app: &App, folders: &[String]) -> Option<Self> {
        let text: String = folders.iter().map(|folder| folder.trim_end_matches(GOES_ON)).collect();
        let name = percent_decode_str(&text).decode_utf8().ok()?.into_owned();
        Self::new(app, name).ok().filter(|state| state.folders == folders)
    }

    /// Is this the beginning of a name that goes on in the folder?
    pub(super) fn goes_on(folder: &str) -> bool {
        folder.ends_with(GOES_ON)
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
        ToRead::own(path(&self.folders, Some(version)), self.lock.clone())
    }

    pub(super) fn to_write(&self, version: u64) -> ToWrite {
        ToWrite::own(path(&self.folders, Some(version)), self.lock.clone())
    }

    /// The folder of its versions.
    pub(super) fn place(&self) -> FilePath {
        path(&self.folders, None)
    }
}

/// A version has as many digits as there can be, so that the order of names is that of numbers.
fn path(folders: &[String], version: Option<u64>) -> FilePath {
    let version = version.map(|version| format!("{version:020}"));
    let folders = folders.iter().map(String::as_str);
    FilePath::own([FOLDER].into_iter().chain(folders).chain(version.as_deref()))
}

/// A name as that of folders: nothing in it means anything to a file system.
fn folders(name: &str) -> Vec<String> {
    let encoded = encoded(name);
    let (mut folders, mut rest) = (Vec::new(), encoded.as_str());
    while rest.len() > PIECE_BYTES {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
        folders.push(format!("{piece}{GOES_ON}"));
        rest = after;
    }
    folders.push(rest.to_owned());
    folders
}

fn encoded(name: &str) -> String {
    let mut encoded = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') || !c.is_ascii() && !c.is_control() {
            encoded.push(c);
        } else {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| encoded += &format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_folder_and_a_folder_is_a_name() {
        for (name, folder) in [
            ("prod", "prod"),
            ("team/app-1_b", "team%2Fapp-1_b"),
            ("..", "%2E%2E"),
            ("a+", "a%2B"),
            ("a%2Fb", "a%252Fb"),
            ("größe", "größe"),
            ("a\u{85}b\n", "a%C2%85b%0A"),
        ] {
            assert_eq!(folders(name), [folder]);
            assert_eq!(percent_decode_str(folder).decode_utf8().as_deref(), Ok(name));
        }
    }

    #[test]
    fn a_long_name_is_folders_in_folders() {
        for name in ["/".repeat(512), "ß".repeat(256), "a".repeat(251)] {
            let folders = folders(&name);
            assert!(folders.len() > 1 && folders.iter().all(|folder| folder.len() <= 255));
            let text: String = folders.iter().map(|f| f.trim_end_matches(GOES_ON)).collect();
            assert_eq!(percent_decode_str(&text).decode_utf8().as_deref(), Ok(name.as_str()));
        }
    }
}
