//! The files of a policy: their text, positions in it for error messages, and secrets.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use leasehold_base::exposure::Trusted;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use toml::Spanned;

use super::key;

/// Maximum file size.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The path and text of a file.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl Source {
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let why = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file = std::fs::File::open(path).map_err(why)?;
        let facts = file.metadata().map_err(why)?;
        // Any user who can write this file controls all access rights.
        if facts.permissions().mode() & 0o022 != 0 {
            return Err(format!(
                "{0}: other users can write to it; run: chmod go-w {0}",
                path.display()
            ));
        }
        let mut text = String::new();
        file.by_ref().take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(why)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(format!("{}: has more than {FILE_BYTES_MAX} bytes", path.display()));
        }
        Ok(Self { path: path.into(), text })
    }

    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, String> {
        toml::from_str(&self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            format!("{}: {}", self.place(at), error.message().trim_end())
        })
    }

    /// Returns a position as file and line: `auth.toml:31`.
    pub(super) fn place(&self, at: usize) -> String {
        format!("{}:{}", self.path.display(), self.line(at))
    }

    pub(super) fn line(&self, at: usize) -> u32 {
        let n_before = self.text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        u32::try_from(n_before + 1).unwrap_or(u32::MAX)
    }

    pub(super) fn wrong<T>(&self, value: &Spanned<T>, why: impl std::fmt::Display) -> String {
        format!("{}: {why}", self.place(value.span().start))
    }
}

/// The further files that the auth file names. Collects them and hashes their content, to detect changes.
pub(super) struct Beside<'a> {
    folder: &'a Path,
    hasher: Sha256,
    /// The files that were read, in this order.
    files: Vec<Trusted>,
}

impl<'a> Beside<'a> {
    /// Starts with the auth file at `path`. File names are relative to its directory.
    pub(super) fn new(path: &'a Path, first: &Source) -> Self {
        let folder = path.parent().unwrap_or(Path::new("."));
        let files = vec![Trusted { path: path.into(), is_secret: false }];
        Self { folder, hasher: Sha256::new_with_prefix(&first.text), files }
    }

    /// Returns the files and a hash of their content.
    pub(super) fn finish(self) -> ([u8; 32], Vec<Trusted>) {
        (self.hasher.finalize().into(), self.files)
    }

    pub(super) fn source(&mut self, name: &str) -> Result<Source, String> {
        let source = Source::read(&self.folder.join(name))?;
        self.hasher.update((source.text.len() as u64).to_le_bytes());
        self.hasher.update(&source.text);
        self.files.push(Trusted { path: source.path.clone(), is_secret: false });
        Ok(source)
    }

    /// Reads the secret in a file, without trailing white space.
    pub(super) fn secret(&mut self, name: &str, bytes_min: usize) -> Result<Secret, String> {
        let source = self.source(name)?;
        self.files.iter_mut().for_each(|file| file.is_secret |= file.path == source.path);
        let text = source.text.trim_end();
        let shown = source.path.display();
        if text.len() < bytes_min {
            return Err(format!("{shown}: the secret is shorter than {bytes_min} bytes"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("{shown}: the secret must be printable ASCII without spaces"));
        }
        Ok(Secret(text.into()))
    }
}

/// A secret. Its `Debug` output hides the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether `other` is the secret, comparing in constant time.
    pub fn is(&self, other: &[u8]) -> bool {
        key::is_same(&Sha256::digest(self.0.as_bytes()), &Sha256::digest(other))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(a secret)")
    }
}
