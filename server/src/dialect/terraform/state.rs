//! A state, and where its versions are.

use leasehold_core::LockKey;
use percent_encoding::percent_decode_str;

use super::error::Refusal;
use crate::app::App;
use crate::content::{FilePath, ToRead, ToWrite};

/// In the server's own part of the store.
const FOLDER: &str = "terraform";
/// What file systems take.
const NAME_BYTES_MAX: usize = 255;
/// A state by its name.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Its lock, which has its name.
    pub(super) lock: LockKey,
    folder: String,
}

impl State {
    pub(super) fn new(app: &App, name: String) -> Result<Self, Refusal> {
        let folder = encoded(&name);
        let lock = LockKey::new(app.dialect.terraform.namespace.clone(), name);
        app.limits.check_key(&lock)?;
        if folder.len() > NAME_BYTES_MAX {
            let why = format!(
                "the name of the state must have at most {NAME_BYTES_MAX} bytes if every space and punctuation mark but - \
                 and _ is percent-encoded"
            );
            return Err(Refusal::invalid(why));
        }
        Ok(Self { lock, folder })
    }

    /// The state whose folder has this name.
    pub(super) fn of_folder(app: &App, folder: &str) -> Option<Self> {
        let name = percent_decode_str(folder).decode_utf8().ok()?.into_owned();
        Self::new(app, name).ok().filter(|state| state.folder == folder)
    }

    /// The folder of all states, to somebody who may see any of them.
    pub(super) fn all(app: &App) -> ToRead {
        let namespace = app.dialect.terraform.namespace.clone();
        ToRead::own_folder(FilePath::own([FOLDER]), namespace)
    }

    /// All its versions.
    pub(super) fn versions(&self) -> ToRead {
        ToRead::own(FilePath::own([FOLDER, &self.folder]), self.lock.clone())
    }

    pub(super) fn to_read(&self, version: u64) -> ToRead {
        ToRead::own(self.path(version), self.lock.clone())
    }

    pub(super) fn to_write(&self, version: u64) -> ToWrite {
        ToWrite::own(self.path(version), self.lock.clone())
    }

    /// The folder, for taking turns.
    pub(super) fn place(&self) -> FilePath {
        FilePath::own([FOLDER, &self.folder])
    }

    /// With as many digits as there can be, so that the order of names is that of numbers.
    fn path(&self, version: u64) -> FilePath {
        FilePath::own([FOLDER, &self.folder, &format!("{version:020}")])
    }
}

/// A name as a folder's: nothing in it means anything to a file system.
fn encoded(name: &str) -> String {
    let mut folder = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') || !c.is_ascii() && !c.is_control() {
            folder.push(c);
        } else {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| folder += &format!("%{byte:02X}"));
        }
    }
    folder
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
            ("a%2Fb", "a%252Fb"),
            ("größe", "größe"),
            ("a\u{85}b\n", "a%C2%85b%0A"),
        ] {
            assert_eq!(encoded(name), folder);
            assert_eq!(percent_decode_str(folder).decode_utf8().as_deref(), Ok(name));
        }
    }
}
