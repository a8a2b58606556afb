//! Access to a data directory, a backup and a restored directory: only the owner can read them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use leasehold_testkit::{Process, folder, json, wrapped};

use crate::folder::{BINARY, leasehold, outcome, text};

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Checks that only the owner can access the directory and its files, and returns the number of files.
fn check_private(folder: &Path) -> usize {
    assert_eq!(mode(folder), 0o700, "{folder:?}");
    let entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
    for entry in &entries {
        assert_eq!(mode(&entry.path()) & 0o077, 0, "{:?}", entry.path());
    }
    entries.len()
}

#[tokio::test]
async fn only_the_owner_can_read_what_we_keep_also_in_folders_that_were_wider() {
    let folder = folder();
    let [data, copy, restored] = ["data", "copy", "restored"].map(|name| folder.path().join(name));
    let open = wrapped(folder.path(), "umask 0\nexec", BINARY);
    let server = Process::start(&open, &data, &[]);
    assert_eq!(server.client.acquire("db", "a", 60_000, json!({})).await.status, 200);
    assert!(check_private(&data) >= 5, "databases, logs and lock");
    server.kill();
    // As an earlier version, or a careless copy, left the files.
    for entry in std::fs::read_dir(&data).unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            set_mode(&entry.path(), 0o644);
        }
    }
    set_mode(&data, 0o755);
    let server = Process::start(&open, &data, &[]);
    check_private(&data);
    for (target, args) in [
        (&copy, ["backup", text(&copy), "--data", text(&data)]),
        (&restored, ["restore", text(&copy), "--data", text(&restored)]),
    ] {
        std::fs::create_dir(target).unwrap();
        set_mode(target, 0o777);
        let (worked, said) = outcome(Command::new(&open).args(args));
        assert!(worked, "{said}");
        assert_eq!(check_private(target), 2);
    }
    assert!(server.terminate().success());
}

#[test]
fn a_folder_that_others_use_too_is_refused_with_advice() {
    let folder = folder();
    let data = folder.path().join("shared");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("notes"), "of another program").unwrap();
    set_mode(&data, 0o755);
    let Err(said) = Process::try_start(BINARY, &data, &[]) else { panic!("it started") };
    assert!(said.contains("contains other files and is readable by other users"), "{said}");
    assert_eq!(mode(&data), 0o755, "it is not ours to change");
    assert!(Process::try_start(BINARY, &data.join("leasehold"), &[]).is_ok(), "as advised");
}

/// Only root can run this test, because it has to become another user.
#[test]
fn a_folder_of_another_user_that_others_can_write_to_is_refused_with_advice() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = folder();
    set_mode(folder.path(), 0o755);
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    set_mode(&data, 0o777);
    let binary = folder.path().join("leasehold");
    std::fs::copy(BINARY, &binary).unwrap();
    let unprivileged = ["--reuid=65534", "--regid=65534", "--clear-groups", text(&binary)];
    let serve = ["serve", "--listen=127.0.0.1:0", "--data", text(&data)];
    let (worked, said) = outcome(Command::new("setpriv").args(unprivileged).args(serve));
    assert!(!worked && said.contains("is writable by other users (mode 777)"), "{said}");
    assert!(leasehold(&["verify", text(&data)]).1.contains("is missing"), "nothing was made");
}
