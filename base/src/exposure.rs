//! Finds files that the server trusts (keys, secrets, the auth file) and that other users can read or replace.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A file the server trusts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trusted {
    /// The path of the file.
    pub path: PathBuf,
    /// Whether only the server's user, and possibly a group, may read it.
    pub is_secret: bool,
}

const ROOT: u32 = 0;
const STICKY: u32 = 0o1000;
const OTHERS_READ: u32 = 0o004;
const OTHERS_WRITE: u32 = 0o022;

/// Returns how other users can read or replace a file. Each problem comes with a command that fixes it. A missing
/// file has no problems.
pub fn doubts(file: &Trusted) -> Vec<(String, String)> {
    doubts_of(file, rustix::process::geteuid().as_raw())
}

/// Does the same as [`doubts`], for a process that runs as the user `us`.
fn doubts_of(file: &Trusted, us: u32) -> Vec<(String, String)> {
    let Trusted { path, is_secret } = file;
    let (Ok(found), Ok(real)) = (fs::metadata(path), fs::canonicalize(path)) else {
        return Vec::new();
    };
    let (mode, shown) = (found.permissions().mode(), path.display());
    let mut doubts = Vec::new();
    let owner = found.uid();
    if owner != ROOT && owner != us {
        // Root also checks the files of servers that run as other users.
        let unless = if us == ROOT { ", unless the server runs as that user" } else { "" };
        let found = format!("{shown}: it belongs to user {owner}, who can change it{unless}");
        doubts.push((found, format!("chown {us} {shown}")));
    }
    if mode & OTHERS_WRITE != 0 {
        let found = format!("{shown}: other users can write to it (mode {:03o})", mode & 0o777);
        doubts.push((found, format!("chmod go-w {shown}")));
    }
    if *is_secret && mode & OTHERS_READ != 0 {
        let mode = mode & 0o777;
        let found = format!("{shown}: every user of this machine can read it (mode {mode:03o})");
        doubts.push((found, format!("chmod o-r {shown}")));
    }
    // Other users could also replace a symbolic link.
    let named = std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let open = open_folder(&real).or_else(|| open_folder(&named));
    if let Some((folder, mode)) = open {
        let folder = folder.display();
        let found = format!(
            "{shown}: other users can replace it, because {folder} is writable for them (mode {mode:03o})"
        );
        doubts.push((found, format!("chmod go-w {folder}")));
    }
    doubts
}

/// Returns the nearest folder in which other users can replace the file or a folder on this path.
fn open_folder(path: &Path) -> Option<(PathBuf, u32)> {
    path.ancestors().skip(1).find_map(|folder| {
        let mode = fs::metadata(folder).ok()?.permissions().mode();
        // In a sticky folder, only the owner of a file can replace it.
        let is_open = mode & OTHERS_WRITE != 0 && mode & STICKY == 0;
        is_open.then(|| (folder.to_path_buf(), mode & 0o777))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_user_is_reported() {
        let here = tempfile::tempdir().expect("a folder");
        let path = here.path().join("key.pem");
        fs::write(&path, "secret").expect("written");
        let file = Trusted { path: path.clone(), is_secret: false };
        let told = |us| doubts_of(&file, us).into_iter().map(|(found, _)| found).collect();
        // Only root can change the owner of a file. Without root, the test pretends to run as another user.
        let _ = std::os::unix::fs::chown(&path, Some(4711), None);
        let owner = fs::metadata(&path).expect("there").uid();
        let whose = format!("it belongs to user {owner}, who can change it");
        let others: Vec<String> = told(owner + 1);
        assert_eq!(others, [format!("{}: {whose}", path.display())]);
        let of_root: Vec<String> = told(ROOT);
        assert!(of_root[0].ends_with("unless the server runs as that user"), "{of_root:?}");
        assert_eq!(told(owner), Vec::<String>::new());
    }

    #[test]
    fn a_file_that_others_can_read_or_replace_is_reported() {
        let here = tempfile::tempdir().expect("a folder");
        let folder = here.path().join("conf");
        fs::create_dir(&folder).expect("made");
        let path = folder.join("key.pem");
        fs::write(&path, "secret").expect("written");
        let told = |file_mode: u32, folder_mode: u32, is_secret: bool| {
            let set =
                |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
            set(&path, file_mode).and_then(|()| set(&folder, folder_mode)).expect("ours");
            doubts(&Trusted { path: path.clone(), is_secret })
        };
        for (file, dir, is_secret, expected) in [
            (0o600, 0o700, true, &[][..]),
            (0o640, 0o755, true, &[]),
            (0o644, 0o755, false, &[]),
            (0o644, 0o755, true, &["every user of this machine can read it (mode 644)"]),
            (0o660, 0o755, true, &["other users can write to it (mode 660)"]),
            (0o600, 0o777, true, &["can replace it"]),
            (0o600, 0o775, false, &["can replace it"]),
            (0o600, 0o1777, true, &[]),
            (0o666, 0o777, true, &["can write to it", "can read it", "can replace it"]),
        ] {
            let told = told(file, dir, is_secret);
            let is_so = |((told, _), expected): (&(String, String), &&str)| told.contains(expected);
            let is_all = told.len() == expected.len() && told.iter().zip(expected).all(is_so);
            assert!(is_all, "{file:o} {dir:o}: {told:?}");
        }
        assert!(doubts(&Trusted { path: folder.join("none"), is_secret: true }).is_empty());
    }
}
