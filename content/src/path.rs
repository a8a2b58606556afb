//! The path of a file or folder, and the lock for it.

use std::fmt;
use std::fmt::Write;

use leasehold_core::LockKey;
use percent_encoding::percent_decode_str;

use super::Naming;
use super::extent;

/// Maximum length of a decoded path, in bytes.
const PATH_BYTES_MAX: usize = 4096;
/// Maximum length of a name in a path, in bytes: the limit of common file systems.
const SEGMENT_BYTES_MAX: usize = 255;
/// The server's own directory in the directory of files. Drafts are in it, and no request can name it.
pub(super) const OWN_FOLDER: &str = ".leasehold";

/// A decoded path such as `/documents/file.txt`, `/documents/` or `/`. It is valid and never leads outside the
/// directory of files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilePath {
    text: String,
}

/// Why a request path is not the path of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoPath {
    /// The path belongs to another part of the server.
    Reserved,
    /// The path is malformed, for this reason.
    Bad(&'static str),
}

impl FilePath {
    /// Decodes and checks a percent-encoded path.
    pub fn parse(raw: &str) -> Result<Self, NoPath> {
        let text = decode(raw).ok_or(NoPath::Bad("the path is not percent-encoded UTF-8"))?;
        check(&text).map_err(NoPath::Bad)?;
        Ok(Self { text })
    }

    /// Checks a path that is not encoded; `None` if it is invalid.
    pub fn plain(text: &str) -> Option<Self> {
        check(text).ok().map(|()| Self { text: text.into() })
    }

    /// Returns a path in the server's own directory, which no request can name.
    pub fn own<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut text = format!("/{OWN_FOLDER}");
        names.into_iter().for_each(|name| text.extend(["/", name]));
        Self { text }
    }

    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the path ends with a slash, so that it can only be a folder.
    pub fn is_folder(&self) -> bool {
        self.text.ends_with('/')
    }

    /// Adds a slash at the end of the path if it is missing.
    pub fn into_folder(mut self) -> Self {
        if !self.is_folder() {
            self.text.push('/');
        }
        self
    }

    /// Returns the names in the path, outermost first.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.text.split('/').filter(|segment| !segment.is_empty())
    }

    /// Returns the number of names in the path. A lock needs one part for each name, so requests with too many names
    /// are rejected before any work is done for each of them.
    pub fn depth(&self) -> usize {
        self.segments().count()
    }

    /// Returns the lock on the file or folder at this path.
    pub fn lock(&self, names: &impl Naming) -> LockKey {
        extent::node_key(names, self)
    }

    /// Returns the folders around this path, starting at the root.
    pub fn ancestors(&self) -> impl Iterator<Item = FilePath> {
        let stem = self.text.trim_end_matches('/');
        let ends = stem.match_indices('/').map(|(at, _)| at);
        ends.map(|at| FilePath { text: if at == 0 { "/".into() } else { stem[..at].into() } })
    }

    /// Returns the parent folder; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        let (folder, _) = self.text.trim_end_matches('/').rsplit_once('/')?;
        Some(Self { text: if folder.is_empty() { "/".into() } else { folder.into() } })
    }

    /// Returns the path without its final slash; the root stays `/`.
    pub fn into_node(mut self) -> Self {
        while self.text.len() > 1 && self.is_folder() {
            self.text.pop();
        }
        self
    }

    /// Returns the path of an entry in this folder; `None` if no request can name it.
    pub fn child(&self, name: &str) -> Option<Self> {
        let text = format!("{}/{name}", self.text.trim_end_matches('/'));
        check(&text).ok().map(|()| Self { text })
    }

    /// Returns whether the other path is inside this folder, at any depth.
    pub fn contains(&self, other: &Self) -> bool {
        let stem = self.text.trim_end_matches('/');
        other.text.strip_prefix(stem).is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'))
    }

    /// Returns whether the path of an entry would be short enough. `way` contains the folders between this path and the
    /// entry `name`.
    pub(super) fn fits(&self, way: &[String], name: &str) -> bool {
        let inner: usize = way.iter().map(|name| name.len() + 1).sum();
        self.text.trim_end_matches('/').len() + inner + 1 + name.len() <= PATH_BYTES_MAX
    }

    /// Returns the path percent-encoded for use in a URL.
    pub fn encoded(&self) -> String {
        self.text.bytes().fold(String::new(), |mut text, byte| {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                    text.push(char::from(byte));
                }
                _ => {
                    let _ = write!(text, "%{byte:02X}");
                }
            }
            text
        })
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Percent-decodes a path once; `None` if it is not percent-encoded UTF-8.
pub fn decode(path: &str) -> Option<String> {
    let decoded = percent_decode_str(path).decode_utf8().ok().filter(|_| is_encoded(path))?;
    Some(decoded.into_owned())
}

/// Returns whether two hexadecimal digits follow each `%`.
pub fn is_encoded(path: &str) -> bool {
    let is_hex =
        |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|b| b.is_ascii_hexdigit());
    path.split('%').skip(1).all(is_hex)
}

fn check(path: &str) -> Result<(), &'static str> {
    let Some(rest) = path.strip_prefix('/') else { return Err("the path does not begin with /") };
    if path.len() > PATH_BYTES_MAX {
        return Err("the path is longer than 4096 bytes");
    }
    if path.chars().any(char::is_control) {
        return Err("the path has a control character");
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if path == "/" {
        return Ok(());
    }
    for segment in rest.split('/') {
        match segment {
            "" => return Err("the path has an empty segment"),
            "." | ".." => return Err("the path has a segment . or .."),
            _ if segment.len() > SEGMENT_BYTES_MAX => {
                return Err("the path has a name longer than 255 bytes");
            }
            _ => {}
        }
    }
    if rest.split('/').next() == Some(OWN_FOLDER) {
        return Err("the path begins with .leasehold, which is reserved for the server");
    }
    Ok(())
}
