//! The data folder: whose it is, who uses it, and what it is on.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock, statfs};

use super::finding::Finding;
use super::nearest;

const CHECK: &str = "data";

/// File systems on which locks and the write-ahead log cannot be relied on, and those that forget.
const REMOTE: [(i64, &str); 5] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x6573_5546, "FUSE"),
];
const FORGETFUL: [(i64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

/// The process that uses a folder, if one does.
pub(super) fn user(folder: &Path) -> Option<String> {
    let path = folder.join("lock");
    let file = fs::File::open(&path).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => fs::read_to_string(&path).ok(),
        _ => None,
    }
}

/// What is to be said of a folder, or of having none.
pub(super) fn look(folder: Option<&Path>, is_shared: bool, user: &Option<String>) -> Vec<Finding> {
    let Some(folder) = folder else {
        let advice = "leave --ephemeral out if locks have to outlast the server";
        return vec![Finding::warning(
            CHECK,
            "everything is kept in memory and lost at the end",
            advice,
        )];
    };
    let kind = statfs(nearest(folder)).map_or(0, |found| found.f_type);
    [Some(state(folder, is_shared, user)), file_system(folder, kind)]
        .into_iter()
        .flatten()
        .collect()
}

fn state(folder: &Path, is_shared: bool, user: &Option<String>) -> Finding {
    let shown = folder.display();
    let Ok(metadata) = fs::metadata(folder) else {
        return absent(folder);
    };
    if !metadata.is_dir() {
        return Finding::problem(
            CHECK,
            format!("{shown} is not a folder"),
            "name another with --data",
        );
    }
    if folder.join("INCOMPLETE").exists() {
        let advice =
            "repeat the backup, restore or start that was interrupted, with the same folder";
        return Finding::problem(CHECK, format!("{shown} is incomplete"), advice);
    }
    let us = rustix::process::geteuid().as_raw();
    if metadata.uid() != us {
        let found = format!("{shown} belongs to user {}, and this is user {us}", metadata.uid());
        return Finding::warning(
            CHECK,
            found,
            "run doctor as the user of the server, or give the folder to it",
        );
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        let found = format!("others can look into {shown} (mode {:o})", metadata.mode() & 0o777);
        return Finding::warning(
            CHECK,
            found,
            format!("chmod 700 {shown}; a server does that itself if there is a store in it"),
        );
    }
    match user {
        Some(process) => Finding::fine(CHECK, format!("{shown} is in use by process {process}")),
        None if is_shared => {
            Finding::fine(CHECK, format!("{shown} is this server's memory of a shared store"))
        }
        None if folder.join("lock").exists() => Finding::fine(
            CHECK,
            format!("{shown} is a store nobody uses now; check it with: leasehold verify {shown}"),
        ),
        None => Finding::fine(CHECK, format!("{shown} is empty: the first start makes a store")),
    }
}

fn absent(folder: &Path) -> Finding {
    let (shown, above) = (folder.display(), nearest(folder));
    match rustix::fs::access(&above, rustix::fs::Access::WRITE_OK) {
        Ok(()) => Finding::fine(CHECK, format!("{shown} is made by the first start")),
        Err(_) => Finding::problem(
            CHECK,
            format!("{shown} is not there, and this user may not make it in {}", above.display()),
            "make it, and give it to the user of the server; or name another with --data",
        ),
    }
}

fn file_system(folder: &Path, kind: i64) -> Option<Finding> {
    let named =
        |list: &[(i64, &'static str)]| list.iter().find(|(n, _)| *n == kind).map(|(_, name)| *name);
    let shown = folder.display();
    if let Some(name) = named(&REMOTE) {
        let advice = "keep the data on a local disk: locks and the write-ahead log do not work over a network";
        return Some(Finding::problem(CHECK, format!("{shown} is on {name}"), advice));
    }
    named(&FORGETFUL).map(|name| {
        let advice = "keep the data on a disk";
        Finding::warning(
            CHECK,
            format!("{shown} is on {name}, which is lost when the machine stops"),
            advice,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    /// A folder with a mode, gone at the end.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir()
                .join(format!("leasehold-doctor-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).expect("a folder");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("ours");
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_folder_is_empty_a_store_incomplete_open_to_others_or_none() {
        let Folder(path) = &Folder::new("state");
        let said = |user: Option<&str>| {
            let found = state(path, false, &user.map(String::from));
            (found.verdict, found.found)
        };
        assert!(said(None).1.ends_with("is empty: the first start makes a store"));
        fs::write(path.join("lock"), "").expect("a file");
        assert!(said(None).1.contains("nobody uses now; check it with: leasehold verify"));
        assert!(said(Some("17")).1.ends_with("is in use by process 17"));
        assert!(state(path, true, &None).found.ends_with("memory of a shared store"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
        assert_eq!(said(None).0, Verdict::Warning);
        assert!(said(None).1.contains("(mode 755)"));
        fs::write(path.join("INCOMPLETE"), "").expect("a file");
        assert_eq!(said(None).0, Verdict::Problem);
        let file = path.join("lock");
        assert_eq!(state(&file, false, &None).verdict, Verdict::Problem, "no folder");
        assert_eq!(state(&path.join("new"), false, &None).verdict, Verdict::Fine);
        assert_eq!(look(None, false, &None)[0].verdict, Verdict::Warning, "in memory only");
    }

    #[test]
    fn whoever_has_the_lock_uses_it() {
        let Folder(path) = &Folder::new("user");
        assert_eq!(user(path), None);
        fs::write(path.join("lock"), "4711").expect("a file");
        assert_eq!(user(path), None, "its server is gone");
        let file = fs::File::open(path.join("lock")).expect("a file");
        flock(&file, FlockOperation::LockExclusive).expect("locked");
        assert_eq!(user(path).as_deref(), Some("4711"));
    }

    #[test]
    fn a_disk_is_neither_far_away_nor_forgetful() {
        let of = |kind| file_system(Path::new("data"), kind).map(|found| found.verdict);
        assert_eq!(of(0xef53), None, "ext4");
        assert_eq!(of(0x6969), Some(Verdict::Problem));
        assert_eq!(of(0x0102_1994), Some(Verdict::Warning));
    }
}
