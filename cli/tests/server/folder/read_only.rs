//! `verify` creates nothing and works on a read-only disk. A full disk is reported as such.

use std::path::Path;
use std::process::Command;

use leasehold_testkit::{Process, TempDir, folder, json, wrapped};

use crate::folder::{BINARY, content, leasehold, outcome, text, unshare};

/// Creates a store whose server was killed, with changes in the write-ahead log.
async fn crashed_store() -> TempDir {
    let folder = folder();
    let data = folder.path().join("data");
    let server = Process::start(BINARY, &data, &[]);
    for n in 0..5 {
        let answer = server.client.acquire(&format!("lock-{n}"), "a", 600_000, json!({})).await;
        assert_eq!(answer.status, 200);
    }
    server.kill();
    assert!(data.join("journal.db-wal").metadata().unwrap().len() > 0);
    folder
}

/// Runs a script with separate mounts, in which `$1` is the binary and `$2` the data directory.
fn with_mounts(script: &str, data: &Path) -> (bool, String) {
    let before = unshare("--mount");
    let mut words = before.split(' ');
    let mut command = Command::new(words.next().expect("a word"));
    outcome(command.args(words).args(["sh", "-c", script, "sh", BINARY, text(data)]))
}

#[tokio::test]
async fn verify_of_a_crashed_store_changes_nothing_and_works_where_nothing_can_be_written() {
    let folder = crashed_store().await;
    let data = folder.path().join("data");
    let before = content(&data);
    let (worked, said) = leasehold(&["verify", text(&data)]);
    assert!(worked && said.contains("5 active"), "{said}");
    assert_eq!(content(&data), before);
    let script = "mount --bind \"$2\" \"$2\" && mount -o remount,ro,bind \"$2\" && cd / \
                  && ! touch \"$2/x\" 2>/dev/null && \"$1\" verify \"$2\"";
    let (worked, said) = with_mounts(script, &data);
    assert!(worked && said.contains("5 active"), "{said}");
    assert_eq!(content(&data), before);
    // A store that was closed cleanly needs no copy.
    assert!(Process::start(BINARY, &data, &[]).terminate().success());
    let before = content(&data);
    let nowhere = ["env", "TMPDIR=/nowhere", BINARY, "verify", text(&data)];
    let (worked, said) = outcome(Command::new(nowhere[0]).args(&nowhere[1..]));
    assert!(worked && said.contains("5 active"), "{said}");
    assert_eq!(content(&data), before);
}

#[tokio::test]
async fn a_full_disk_at_the_start_is_told_by_name_with_what_to_do() {
    let folder = crashed_store().await;
    let data = folder.path().join("data");
    // The store is closed cleanly: files that a crash leaves are deleted at the start, which would free space.
    assert!(Process::start(BINARY, &data, &[]).terminate().success());
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    for (what, store) in [("a store", data.display().to_string()), ("none", "/dev/null".into())] {
        let script = format!(
            "mount -t tmpfs -o size=512k,mode=700 none {small} && cp {store}/* {small} 2>/dev/null\n\
             dd if=/dev/zero of={small}/filler bs=1k 2>/dev/null\nexec \"$@\"",
            small = small.display()
        );
        let path = folder.path().join("script");
        std::fs::write(&path, script).unwrap();
        let before = format!("exec {} sh {}", unshare("--mount"), path.display());
        let wrapper = wrapped(folder.path(), &before, BINARY);
        let Err(said) = Process::try_start(&wrapper, &small, &[]) else {
            panic!("{what}: it fits")
        };
        assert!(said.contains(text(&small)), "{what}: it does not name the file: {said}");
        assert!(said.contains("Free some space"), "{what}: {said}");
    }
}
