//! Tests of copies that fail halfway.

use std::process::Command;

use leasehold_auth::Caller;
use leasehold_core::LockKey;

use super::*;
use crate::{Content, Local, Quota, ToRead};

const FILE: &str = "/box/in/f";

/// Copies a folder; the copy calls `may` for each file and folder in it.
fn copy(local: &Local, may: &dyn Fn(&FilePath) -> bool) -> Result<(), Error> {
    let path = |text: &str| FilePath::plain(text).expect("a path");
    let from = ToRead::own(path("/box"), LockKey::new("files", "/box"));
    let from = Caller::unasked().permit(from).expect("authentication is off");
    let bounds = Bounds { n_max: 100, depth_max: 60 };
    local.copy(Source { from: &from, may }, &path("/to"), true, bounds).map(drop)
}

/// Set in the process that [`a_copy_for_which_too_few_files_can_be_opened_says_so`] starts.
const IS_LIMITED: &str = "LEASEHOLD_TEST_OPEN_FILES";

/// Runs itself in a process of its own, because the limit is that of the whole process.
#[test]
fn a_copy_for_which_too_few_files_can_be_opened_says_so() {
    if std::env::var_os(IS_LIMITED).is_none() {
        let name = std::thread::current().name().expect("a name").to_owned();
        let mut child = Command::new("sh");
        child.args(["-c", "ulimit -n 100 && exec \"$0\" --exact \"$1\" --nocapture"]);
        let child = child.arg(std::env::current_exe().expect("a path")).arg(name);
        let ended = child.env(IS_LIMITED, "1").output().expect("it runs");
        let told = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && told.contains("1 passed"), "{ended:?}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let quota = Quota { bytes_max: u64::MAX, free_min: Some(0) };
    let local = Local::open(folder.path(), quota).expect("files");
    let inner = folder.path().join("box/in/deep");
    std::fs::create_dir_all(&inner).expect("made");
    std::fs::write(inner.join("f"), "x").expect("written");
    let any = File::open(folder.path()).expect("a folder");
    let needed = (0..100).find(|n_free| {
        let mut held: Vec<_> = std::iter::from_fn(|| any.try_clone().ok()).collect();
        held.truncate(held.len() - n_free);
        let copied = copy(&local, &|_| true);
        assert!(matches!(copied, Ok(()) | Err(Error::NoFiles)), "{n_free}: {copied:?}");
        copied.is_ok()
    });
    assert!(needed.is_some_and(|n| (2..=OPEN_FILES_MAX).contains(&n)), "{needed:?}");
}

#[test]
fn a_copy_has_nothing_of_a_folder_that_is_moved_meanwhile() {
    let folder = tempfile::tempdir().expect("a folder");
    let quota = Quota { bytes_max: u64::MAX, free_min: Some(0) };
    let local = Local::open(folder.path(), quota).expect("files");
    let (inner, away) = (folder.path().join("box/in"), folder.path().join("away"));
    std::fs::create_dir_all(&inner).expect("made");
    std::fs::write(inner.join("f"), "x").expect("written");
    copy(&local, &|_| true).expect("nothing is moved");
    let denied = copy(&local, &|path| path.as_str() != FILE);
    assert!(matches!(denied, Err(Error::Denied)), "{denied:?}");
    for is_replaced in [false, true] {
        let moved = copy(&local, &|path| {
            if path.as_str() == FILE {
                std::fs::rename(&inner, &away).expect("moved");
                if is_replaced {
                    std::fs::create_dir(&inner).expect("made");
                }
            }
            true
        });
        assert!(matches!(moved, Err(Error::Changed)), "{is_replaced}: {moved:?}");
        std::fs::rename(&away, &inner).expect("moved back");
    }
    let left = std::fs::read_dir(folder.path().join(".leasehold/incoming"));
    assert_eq!(left.expect("a folder").count(), 0, "nothing is left behind");
}
