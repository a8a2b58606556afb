//! The path of a file or folder, and the lock for it.

use std::fmt;
use std::fmt::Write;

use axum::http::Uri;
use leasehold_core::LockKey;

use super::extent;
use crate::app::App;
use crate::dialect;
use crate::dialect::path::decode;

/// Maximum length of a decoded path, in bytes.
const PATH_BYTES_MAX: usize = 4096;
/// Maximum length of a name in a path, in bytes: the limit of common file systems.
const SEGMENT_BYTES_MAX: usize = 255;
/// The server's own directory in the directory of files. Drafts are in it, and no request can name it.
pub(super) const OWN_FOLDER: &str = ".leasehold";

/// A decoded path such as `/documents/file.txt`, `/documents/` or `/`. It is valid and never leads outside the
/// directory of files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FilePath {
    text: String,
}

/// Why a request path is not the path of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NoPath {
    /// The path belongs to another part of the server.
    Reserved,
    /// The path is malformed, for this reason.
    Bad(&'static str),
}

impl FilePath {
    /// Returns the path that a request names: below `/files`, or at the root if no other part of the server uses the
    /// path.
    pub(crate) fn of(uri: &Uri) -> Result<Self, NoPath> {
        let raw = uri.path();
        if let Some(raw) = raw.strip_prefix("/files/") {
            return Self::parse(&format!("/{raw}"));
        }
        // Another part of the server reports errors in the rest of such a path.
        if decode(raw).is_some_and(|text| is_reserved(&text)) {
            return Err(NoPath::Reserved);
        }
        Self::parse(raw)
    }

    /// Decodes and checks a percent-encoded path.
    pub(crate) fn parse(raw: &str) -> Result<Self, NoPath> {
        let text = decode(raw).ok_or(NoPath::Bad("the path is not percent-encoded UTF-8"))?;
        check(&text).map_err(NoPath::Bad)?;
        Ok(Self { text })
    }

    /// Checks a path that is not encoded; `None` if it is invalid.
    pub(crate) fn plain(text: &str) -> Option<Self> {
        check(text).ok().map(|()| Self { text: text.into() })
    }

    /// Returns a path in the server's own directory, which no request can name.
    pub(crate) fn own<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut text = format!("/{OWN_FOLDER}");
        names.into_iter().for_each(|name| text.extend(["/", name]));
        Self { text }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the path ends with a slash, so that it can only be a folder.
    pub(crate) fn is_folder(&self) -> bool {
        self.text.ends_with('/')
    }

    /// Adds a slash at the end of the path if it is missing.
    pub(crate) fn into_folder(mut self) -> Self {
        if !self.is_folder() {
            self.text.push('/');
        }
        self
    }

    /// Returns the names in the path, outermost first.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &str> {
        self.text.split('/').filter(|segment| !segment.is_empty())
    }

    /// Returns the number of names in the path. A lock needs one part for each name, so requests with too many names
    /// are rejected before any work is done for each of them.
    pub(crate) fn depth(&self) -> usize {
        self.segments().count()
    }

    /// Returns the URL path at which clients can request the file.
    pub(crate) fn location(&self) -> String {
        let prefix = if is_reserved(&self.text) { "/files" } else { "" };
        format!("{prefix}{}", self.encoded())
    }

    /// Returns the lock on the file or folder at this path.
    pub(crate) fn lock(&self, app: &App) -> LockKey {
        extent::node_key(app, self)
    }

    /// Returns the folders around this path, starting at the root.
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = FilePath> {
        let stem = self.text.trim_end_matches('/');
        let ends = stem.match_indices('/').map(|(at, _)| at);
        ends.map(|at| FilePath { text: if at == 0 { "/".into() } else { stem[..at].into() } })
    }

    /// Returns the parent folder; `None` for the root.
    pub(crate) fn parent(&self) -> Option<Self> {
        let (folder, _) = self.text.trim_end_matches('/').rsplit_once('/')?;
        Some(Self { text: if folder.is_empty() { "/".into() } else { folder.into() } })
    }

    /// Returns the path without its final slash; the root stays `/`.
    pub(crate) fn into_node(mut self) -> Self {
        while self.text.len() > 1 && self.is_folder() {
            self.text.pop();
        }
        self
    }

    /// Returns the path of an entry in this folder; `None` if no request can name it.
    pub(crate) fn child(&self, name: &str) -> Option<Self> {
        let text = format!("{}/{name}", self.text.trim_end_matches('/'));
        check(&text).ok().map(|()| Self { text })
    }

    /// Returns whether the other path is inside this folder, at any depth.
    pub(crate) fn contains(&self, other: &Self) -> bool {
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
    pub(crate) fn encoded(&self) -> String {
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

fn is_reserved(path: &str) -> bool {
    path.split('/').nth(1).is_some_and(dialect::is_reserved)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(raw: &str) -> Result<String, NoPath> {
        let uri: Uri = raw.parse().expect("a uri");
        FilePath::of(&uri).map(|path| path.text)
    }

    #[test]
    fn paths_are_decoded_once() {
        for (raw, path) in [
            ("/", "/"),
            ("/a", "/a"),
            ("/a/", "/a/"),
            ("/a%20b/%C3%A9", "/a b/é"),
            ("/a%2Fb", "/a/b"),
            ("/%252e%252e/x", "/%2e%2e/x"),
            ("/...", "/..."),
            ("/files/docs/a", "/docs/a"),
            ("/files/", "/"),
            ("/files/files/x", "/files/x"),
        ] {
            assert_eq!(of(raw).as_deref(), Ok(path), "{raw}");
        }
    }

    #[test]
    fn invalid_paths_are_rejected() {
        let long = format!("/{}", "a".repeat(256));
        let deep = "/abc".repeat(1025);
        for raw in [
            "/..",
            "/../etc/passwd",
            "/a/../b",
            "/%2e%2e/x",
            "/a%2f..%2fb",
            "/.",
            "/a/./b",
            "//",
            "//a",
            "/a//b",
            "/a//",
            "/a%00b",
            "/a%0Ab",
            "/a%7F",
            "/%FF",
            "/%zz",
            "/%",
            "/.leasehold/x",
            "/files/.leasehold",
            "/files/%2e%2e/x",
            "/files//x",
            &long,
            &deep,
        ] {
            assert!(matches!(of(raw), Err(NoPath::Bad(_))), "{raw}: {:?}", of(raw));
        }
    }

    #[test]
    fn a_reserved_name_is_no_file_at_the_root_however_it_is_written() {
        for raw in [
            "/v1/x",
            "/%76%31/x",
            "/lock",
            "/docs/",
            "/files",
            "/console%2Fx",
            "/dav",
            "/v1//",
            "/v1/..",
        ] {
            assert_eq!(of(raw), Err(NoPath::Reserved), "{raw}");
        }
    }

    #[test]
    fn a_location_leads_back() {
        for path in ["/a b/é%.txt", "/docs/x", "/a#b?c", "/x/"] {
            let location = FilePath { text: path.into() }.location();
            assert_eq!(of(&location).as_deref(), Ok(path), "{location}");
        }
    }
}
