//! Checks whether a file or folder can be written, without leaving anything behind.
//!
//! The server runs these checks before it creates a file or folder. `leasehold doctor` runs the same ones, so
//! that both report the same result.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Checks that this file can be appended to or created. Its folder must exist.
pub fn file(path: &Path) -> Result<(), String> {
    let tried = match OpenOptions::new().append(true).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => beside(&pointed_to(path)),
        opened => opened.map(drop),
    };
    tried.map_err(|error| format!("{}: {error}", path.display()))
}

/// Follows symbolic links to the path at which a file would be created. The last target need not exist.
fn pointed_to(path: &Path) -> PathBuf {
    let mut at = path.to_path_buf();
    // Linux follows at most 40 links.
    for _ in 0..40 {
        let Ok(next) = std::fs::read_link(&at) else { break };
        at = at.parent().unwrap_or(Path::new("")).join(next);
    }
    at
}

/// Checks that a new file can be created in the folder of this file.
pub fn beside(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    unnamed(folder.unwrap_or(Path::new(".")))
}

/// Checks that files can be created in this folder. It need not exist: then the nearest existing folder above it
/// is checked.
pub fn folder(path: &Path) -> Result<(), String> {
    let why = |at: &Path, error: io::Error| match error.kind() {
        ErrorKind::NotADirectory => format!("{} is a file, not a directory", at.display()),
        _ if at == path => format!("{}: {error}", at.display()),
        _ => format!("cannot create {}: {}: {error}", path.display(), at.display()),
    };
    let absolute = std::path::absolute(path).map_err(|error| why(path, error))?;
    let mut above = absolute.ancestors().filter(|path| path.symlink_metadata().is_ok());
    let nearest = above.next().unwrap_or(Path::new("/"));
    let shown = if nearest == absolute { path } else { nearest };
    unnamed(nearest).map_err(|error| why(shown, error))
}

/// Creates an unnamed file, which disappears when its descriptor is closed.
fn unnamed(folder: &Path) -> io::Result<()> {
    tempfile::tempfile_in(folder).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checking_a_path_creates_nothing() {
        let here = tempfile::tempdir().expect("a folder");
        let path = |name: &str| here.path().join(name);
        assert_eq!(file(&path("new")), Ok(()));
        assert!(file(&path("none/new")).is_err_and(|why| why.contains("No such file")));
        assert_eq!((folder(&path("new")), folder(&path("a/b/c"))), (Ok(()), Ok(())));
        assert_eq!(folder(here.path()), Ok(()));
        assert_eq!(std::fs::read_dir(here.path()).expect("a folder").count(), 0);
        std::fs::write(path("plain"), "text").expect("written");
        assert_eq!(file(&path("plain")), Ok(()));
        assert_eq!(std::fs::read(path("plain")).expect("a file"), b"text");
        for below in ["plain", "plain/below"] {
            let why = folder(&path(below)).expect_err("a file is in the way");
            assert!(why.ends_with("plain is a file, not a directory"), "{why}");
        }
        assert!(file(here.path()).is_err(), "a folder is no file");
        for (to, is_fine) in [("not-there-yet", true), ("none/new", false)] {
            let link = path(&format!("link-{is_fine}"));
            std::os::unix::fs::symlink(to, &link).expect("a link");
            assert_eq!(file(&link).is_ok(), is_fine, "{to}");
        }
    }
}
