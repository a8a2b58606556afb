//! The tree as git lists it: tracked and new files, without ignored ones.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// All files by their paths from the root, in order.
pub(crate) struct Tree {
    files: Vec<File>,
}

/// A text file. If a file is not UTF-8, only its path is kept.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: Option<String>,
    pub(crate) executable: bool,
}

impl Tree {
    pub(crate) fn read() -> Tree {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let files: Vec<_> = list(&root).iter().filter_map(|path| read(&root, path)).collect();
        assert!(!files.is_empty(), "git lists no files: every rule would hold");
        Tree { files }
    }

    /// Creates a tree in memory. It has no executable files.
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let file = |&(path, text): &(&str, &str)| File {
            path: path.into(),
            text: Some(text.into()),
            executable: false,
        };
        Tree { files: files.iter().map(file).collect() }
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// Returns the paths and contents of the text files.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs"))
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.texts().find(|(other, _)| *other == path).map(|(_, text)| text)
    }

    /// Returns whether there is such a file, or such a folder with a file in it.
    pub(crate) fn has(&self, path: &str) -> bool {
        let within =
            |file: &File| file.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        path.is_empty() || self.files.iter().any(|file| file.path == path || within(file))
    }
}

fn list(root: &Path) -> Vec<String> {
    let listed = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .expect("git runs");
    let complaint = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success(), "git cannot list the tree: {complaint}");
    let paths = String::from_utf8(listed.stdout).expect("paths are UTF-8");
    let mut paths: Vec<_> = paths.split_terminator('\0').map(String::from).collect();
    paths.sort();
    // Git lists a file with a merge conflict once for each side.
    paths.dedup();
    paths
}

/// Returns `None` for a link, a submodule, or a deleted file that is still tracked.
fn read(root: &Path, path: &str) -> Option<File> {
    let whole = root.join(path);
    let metadata = fs::symlink_metadata(&whole).ok().filter(fs::Metadata::is_file)?;
    let bytes = fs::read(&whole).unwrap_or_else(|error| panic!("{path}: {error}"));
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    Some(File { path: path.into(), text, executable: metadata.permissions().mode() & 0o111 != 0 })
}
