//! A repository: the names of its locks, and where its objects are stored.

use leasehold_auth::hex;
use leasehold_core::LockKey;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

use super::error::Refusal;
use crate::app::App;
use crate::content::{FilePath, Folders, ToRead, ToWrite};

/// The folder of all objects, in the server's own part of the store.
const FOLDER: &str = "lfs";
/// The characters that are percent-encoded in the URL of a repository.
const PLAIN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A repository, identified by its name.
#[derive(Clone, Debug)]
pub(super) struct Repository {
    name: String,
    namespace: std::sync::Arc<str>,
    folders: Folders,
}

/// The id of an object: the SHA-256 of its content, in hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Oid(String);

impl Oid {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (text.len() == 64 && text.bytes().all(is_digit)).then(|| Self(text.to_owned()))
    }

    /// Returns the id of the empty object, for checks in which the object does not matter.
    pub(super) fn of_nothing() -> Self {
        Self(hex(&Sha256::digest(b"")))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Repository {
    pub(super) fn new(app: &App, name: &str) -> Result<Self, Refusal> {
        if is_odd(name) {
            let why = "the name of the repository has an empty segment, a segment . or .., or a control character";
            return Err(Refusal::invalid(why));
        }
        let namespace = app.dialect.lfs.namespace.clone();
        let repository = Self { name: name.to_owned(), namespace, folders: Folders::of(name) };
        // The slash and the path of a file need at least two bytes.
        let bytes_max = app.limits.name_bytes_max.saturating_sub(2);
        if name.len() > bytes_max {
            let why = format!(
                "the name of the repository has more than {bytes_max} bytes (name-bytes-max)"
            );
            return Err(Refusal::invalid(why));
        }
        Ok(repository)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the common prefix of the repository's locks.
    pub(super) fn prefix(&self) -> String {
        format!("{}/", self.name)
    }

    /// Returns the lock key against which rights to objects are checked. Objects have no path in the repository, so
    /// this is the prefix that the names of all its locks share.
    pub(super) fn whole(&self) -> LockKey {
        LockKey::new(self.namespace.clone(), self.prefix())
    }

    /// Returns the lock of a file in the repository.
    pub(super) fn lock(&self, app: &App, path: &str) -> Result<LockKey, Refusal> {
        // Control characters would reach the terminals of other users.
        if is_odd(path) {
            let why = "path must be relative to the root of the repository, without empty segments, . and .., and \
                       without control characters";
            return Err(Refusal::unprocessable(why));
        }
        let bytes_max = app.limits.name_bytes_max.saturating_sub(self.name.len() + 1);
        if path.len() > bytes_max {
            let why = format!(
                "the path has {} bytes, and at most {bytes_max} can be locked in this repository (name-bytes-max)",
                path.len()
            );
            return Err(Refusal::unprocessable(why));
        }
        Ok(LockKey::new(self.namespace.clone(), self.prefix() + path))
    }

    /// Returns the path of the file that a lock is for, if the file is in this repository.
    pub(super) fn path<'a>(&self, lock: &'a LockKey) -> Option<&'a str> {
        let path = lock.name.strip_prefix(&*self.name)?.strip_prefix('/')?;
        (lock.namespace == self.namespace && !path.is_empty()).then_some(path)
    }

    /// Returns the path part of an object's URL.
    pub(super) fn address(&self, oid: &Oid) -> String {
        format!("/lfs/{}/objects/{}", utf8_percent_encode(&self.name, PLAIN), oid.0)
    }

    pub(super) fn to_read(&self, oid: &Oid) -> ToRead {
        ToRead::own(self.place(oid), self.whole())
    }

    pub(super) fn to_write(&self, oid: &Oid) -> ToWrite {
        ToWrite::own(self.place(oid), self.whole())
    }

    fn place(&self, oid: &Oid) -> FilePath {
        let folders = self.folders.names().iter().map(String::as_str);
        // Two levels of folders keep the number of entries in each folder small.
        let names = [&oid.0[..2], &oid.0[2..4], &oid.0];
        FilePath::own([FOLDER].into_iter().chain(folders).chain(names))
    }
}

/// Returns whether this is not a plain relative path, or contains characters that must not be shown to people.
fn is_odd(path: &str) -> bool {
    let is_none = |segment: &str| matches!(segment, "" | "." | "..");
    path.split('/').any(is_none) || path.chars().any(char::is_control)
}
