//! Checks the data directory: its owner, the process that uses it, and its file system.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use leasehold_core::Counts;
use leasehold_server::serve;
use rustix::fs::statfs;

use super::finding::Finding;
use super::nearest;

const CHECK: &str = "data";

/// File systems on which file locks and the write-ahead log are not reliable.
const REMOTE: [(i64, &str); 5] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x6573_5546, "FUSE"),
];
const FORGETFUL: [(i64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

/// Checks the data directory. `None` means that the server keeps its data in memory only.
pub(super) fn look(folder: Option<&Path>, is_shared: bool, user: Option<&str>) -> Vec<Finding> {
    let Some(folder) = folder else {
        let advice = "remove --ephemeral if locks must survive a restart";
        return vec![Finding::warning(
            CHECK,
            "all data is in memory and lost when the server stops",
            advice,
        )];
    };
    let kind = statfs(nearest(folder)).map_or(0, |found| found.f_type);
    let us = rustix::process::geteuid().as_raw();
    [Some(state(folder, is_shared, user)), rights(folder, us), file_system(folder, kind)]
        .into_iter()
        .flatten()
        .collect()
}

/// Reports what a server would find at startup. If a process uses the directory, reports that process instead.
fn state(folder: &Path, is_shared: bool, user: Option<&str>) -> Finding {
    let shown = folder.display();
    if let Some(process) = user {
        return Finding::fine(CHECK, format!("{shown} is in use by process {process}"));
    }
    match serve::examine(folder, is_shared) {
        Err(why) => Finding::problem(
            CHECK,
            about(folder, why.to_string()),
            "a server would not start with this data directory; see docs/operate/damage.md",
        ),
        Ok(Some(report)) => {
            let Counts { n_active, n_waiting, .. } = report.counts;
            let has = format!("{n_active} leases active, {n_waiting} waiting");
            Finding::fine(
                CHECK,
                format!("{shown} is an intact store that no server uses now: {has}"),
            )
        }
        Ok(None) if !folder.exists() => {
            Finding::fine(CHECK, format!("{shown} does not exist; the first start creates it"))
        }
        Ok(None) if is_shared => {
            Finding::fine(CHECK, format!("{shown} is this server's own state for a shared store"))
        }
        Ok(None) => {
            Finding::fine(CHECK, format!("{shown} is empty; the first start creates a store"))
        }
    }
}

/// Prepends the path to the error unless the error contains it: the error might name a copy of the store.
fn about(folder: &Path, why: String) -> String {
    let shown = folder.display().to_string();
    if why.contains(&shown) { why } else { format!("{shown}: {why}") }
}

/// Returns a warning if other users can read the directory, or another user owns it.
fn rights(folder: &Path, us: u32) -> Option<Finding> {
    let (shown, metadata) = (folder.display(), fs::metadata(folder).ok()?);
    if metadata.uid() != us {
        let found =
            format!("{shown} belongs to user {}, but doctor runs as user {us}", metadata.uid());
        let advice = "run doctor as the server's user, or change the owner of the directory";
        return Some(Finding::warning(CHECK, found, advice));
    }
    (metadata.permissions().mode() & 0o077 != 0).then(|| {
        let found = format!("other users can read {shown} (mode {:o})", metadata.mode() & 0o777);
        Finding::warning(
            CHECK,
            found,
            format!("run: chmod 700 {shown}; otherwise the next start does it"),
        )
    })
}

fn file_system(folder: &Path, kind: i64) -> Option<Finding> {
    let named =
        |list: &[(i64, &'static str)]| list.iter().find(|(n, _)| *n == kind).map(|(_, name)| *name);
    let shown = folder.display();
    if let Some(name) = named(&REMOTE) {
        let advice = "keep the data on a local disk: file locks and the write-ahead log do not work on a network file \
            system";
        return Some(Finding::problem(CHECK, format!("{shown} is on {name}"), advice));
    }
    named(&FORGETFUL).map(|name| {
        let advice = "keep the data on a disk that survives a restart that survives a restart";
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

    #[test]
    fn a_folder_is_judged_as_a_start_does() {
        let folder = leasehold_testkit::folder();
        let path = &folder.path().join("data");
        let said = |user: Option<&str>| {
            let found = state(path, false, user);
            (found.verdict, found.found)
        };
        assert!(said(None).1.ends_with("does not exist; the first start creates it"));
        fs::create_dir(path).expect("a folder");
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).expect("ours");
        assert!(said(None).1.ends_with("is empty; the first start creates a store"));
        assert!(said(Some("17")).1.ends_with("is in use by process 17"));
        assert!(state(path, true, None).found.ends_with("own state for a shared store"));
        fs::write(path.join("INCOMPLETE"), "").expect("a file");
        let (verdict, why) = said(None);
        assert_eq!(verdict, Verdict::Problem);
        assert!(why.contains("INCOMPLETE in it is empty. Restore a backup"), "{why}");
        fs::write(path.join("INCOMPLETE"), "first start\n").expect("a file");
        assert_eq!(said(None).0, Verdict::Fine, "the next start creates a new store");
        fs::remove_file(path.join("INCOMPLETE")).expect("removed");
        fs::write(path.join("mark"), "x").expect("a file");
        assert!(
            said(None).1.contains("journal.db is missing or empty; mark is present"),
            "half a store"
        );
        assert_eq!(state(path, true, None).verdict, Verdict::Problem, "a store of its own");
        let file = path.join("mark");
        assert!(state(&file, false, None).found.ends_with("is a file, not a directory"));
        assert!(state(&file.join("x"), false, None).found.ends_with("is a file, not a directory"));
        assert_eq!(look(None, false, None)[0].verdict, Verdict::Warning, "in memory only");
    }

    #[test]
    fn a_folder_is_its_owners_alone() {
        let folder = leasehold_testkit::folder();
        let path = folder.path();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
        let us = rustix::process::geteuid().as_raw();
        assert!(rights(path, us).expect("open").found.contains("(mode 755)"));
        assert!(rights(path, us + 1).expect("a stranger").found.contains("belongs to user"));
        assert_eq!(
            state(path, false, None).verdict,
            Verdict::Fine,
            "a start takes the rights away"
        );
        fs::write(path.join("notes"), "").expect("a file");
        let found = state(path, false, None);
        assert_eq!(found.verdict, Verdict::Problem, "it is not the server's alone");
        assert!(found.found.contains("contains other files"), "{}", found.found);
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).expect("ours");
        assert_eq!(rights(path, us), None);
    }

    #[test]
    fn a_disk_is_neither_far_away_nor_forgetful() {
        let of = |kind| file_system(Path::new("data"), kind).map(|found| found.verdict);
        assert_eq!(of(0xef53), None, "ext4");
        assert_eq!(of(0x6969), Some(Verdict::Problem));
        assert_eq!(of(0x0102_1994), Some(Verdict::Warning));
    }
}
