//! Restores, backups and first starts that are killed, or fail, at any call that changes the disk.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use leasehold_testkit::{Process, folder, json, wrapped};

use crate::folder::{BINARY, content, leasehold, start, text};

/// The system calls with which our code changes the disk. Creating a file is not among them: a kill at the next write
/// leaves the same state.
const CHANGES: &str = "fsync,fdatasync,rename,unlink,rmdir,mkdir,pwrite64,write,ftruncate,chmod";
/// The calls that a failing disk makes fail.
const FAILING: &str = "fsync,fdatasync,rename,unlink,pwrite64,ftruncate";
/// More calls of one kind than any of these commands makes.
const CALLS_MAX: u32 = 400;

/// The state of a directory after its creation was interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Left {
    /// There is no directory, or no data in it.
    Nothing,
    /// The directory is marked as incomplete.
    Incomplete,
    /// The directory is a store in which every lease of the backup ends at the first start.
    Complete,
}

fn left(target: &Path) -> Left {
    let is_marker_part = |name: &String| name == "INCOMPLETE.part";
    if !target.exists() || content(target).keys().all(is_marker_part) {
        return Left::Nothing;
    }
    let verdict = leasehold_store::sqlite::verify(target).map(|report| report.is_backup);
    match start(target) {
        Err(why) => {
            assert!(why.contains("is incomplete"), "{why}");
            assert!(verdict.unwrap_err().to_string().contains("is incomplete"));
            Left::Incomplete
        }
        Ok(loaded) => {
            assert!(loaded.is_restored, "it is taken for something else than a backup");
            assert_eq!(loaded.machine.counts().n_active, 0, "what the backup held is alive");
            assert!(verdict.expect("sound"), "no backup");
            Left::Complete
        }
    }
}

/// Interrupts the first call of each kind, then the second, and so on, until there are no more. strace counts calls of
/// each kind separately.
pub(crate) fn each_call(calls: &str, mut interrupt: impl FnMut(&str, u32) -> bool) {
    for call in calls.split(',') {
        let end = (1..CALLS_MAX).find(|n| !interrupt(call, *n));
        assert!(end.is_some(), "there are more than {CALLS_MAX} of {call}");
    }
}

/// Runs a command and injects a fault into its nth call of one kind. Returns whether the fault happened, and whether
/// the command succeeded.
pub(crate) fn injected(log: &Path, how: &str, call: &str, n: u32, args: &[&str]) -> (bool, bool) {
    let inject = format!("inject={call}:{how}:when={n}");
    let trace = format!("trace={call}");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e", &trace, "-e", &inject, "-o", text(log), BINARY]).args(args);
    // A killed command cannot delete its temporary files.
    let room = log.with_extension("tmp");
    std::fs::create_dir_all(&room).expect("a folder");
    let output = strace.env("TMPDIR", &room).output().expect("strace");
    let _ = std::fs::remove_dir_all(room);
    let was_killed = output.status.signal().is_some();
    let calls = std::fs::read_to_string(log).unwrap_or_default();
    (was_killed || calls.contains("INJECTED"), output.status.success())
}

/// Creates a data directory with leases, and a backup of it.
async fn some_store(folder: &Path) -> (PathBuf, PathBuf) {
    let [data, backup] = ["data", "backup"].map(|name| folder.join(name));
    let server = Process::start(BINARY, &data, &["--fold-interval=20ms"]);
    for lock in ["one", "two"] {
        assert_eq!(server.client.acquire(lock, "a", 600_000, json!({})).await.status, 200);
    }
    // After a crash, the write-ahead log contains changes that are not in the database.
    server.kill();
    let (worked, said) = leasehold(&["backup", text(&backup), "--data", text(&data)]);
    assert!(worked, "{said}");
    (data, backup)
}

/// Interrupts the command that fills `target` at each of its calls in turn, and then lets it finish.
fn interrupt_each(
    folder: &Path,
    target: &Path,
    is_there: bool,
    calls: &str,
    how: &str,
    args: &[&str],
) {
    let log = folder.join("calls");
    let mut seen = Vec::new();
    each_call(calls, |call, n| {
        let _ = std::fs::remove_dir_all(target);
        if is_there {
            std::fs::create_dir(target).unwrap();
        }
        let (was_injected, worked) = injected(&log, how, call, n, args);
        let became = left(target);
        assert!(!worked || became == Left::Complete, "{call} {n}: it says it worked: {became:?}");
        if became != Left::Complete {
            let (worked, said) = leasehold(args);
            assert!(worked, "{call} {n}: a second attempt fails: {said}");
            assert_eq!(left(target), Left::Complete, "{call} {n}: second attempt");
        }
        seen.extend(was_injected.then_some(became));
        was_injected
    });
    let count = |left| seen.iter().filter(|seen| **seen == left).count();
    let counts = [Left::Nothing, Left::Incomplete, Left::Complete].map(|left| (left, count(left)));
    println!("{} {how}, folder there before: {is_there}: {counts:?}", args[0]);
    assert!(count(Left::Nothing) > 0 && count(Left::Nothing) + count(Left::Incomplete) > 8);
    assert!(count(Left::Complete) > 0, "it was never interrupted at its end: {counts:?}");
}

#[tokio::test]
async fn a_restore_that_ends_anywhere_leaves_nothing_or_says_so_or_is_complete() {
    let folder = folder();
    let (_, backup) = some_store(folder.path()).await;
    let target = folder.path().join("restored");
    let args = ["restore", text(&backup), "--data", text(&target)];
    interrupt_each(folder.path(), &target, false, CHANGES, "signal=KILL", &args);
    interrupt_each(folder.path(), &target, true, CHANGES, "signal=KILL", &args);
    interrupt_each(folder.path(), &target, false, FAILING, "error=EIO", &args);
}

#[tokio::test]
async fn a_backup_that_ends_anywhere_leaves_nothing_or_says_so_or_is_complete() {
    let folder = folder();
    let (data, _) = some_store(folder.path()).await;
    let before = content(&data);
    let target = folder.path().join("copy");
    let args = ["backup", text(&target), "--data", text(&data)];
    interrupt_each(folder.path(), &target, false, CHANGES, "signal=KILL", &args);
    interrupt_each(folder.path(), &target, true, FAILING, "error=ENOSPC", &args);
    assert_eq!(content(&data), before, "a backup of a crashed store changes it");
}

#[tokio::test]
async fn a_first_start_that_ends_anywhere_is_made_up_for_by_the_next_one() {
    let calls = "fsync,fdatasync,rename,unlink,mkdir,pwrite64,ftruncate,chmod";
    let folder = folder();
    let mut n_kills = 0;
    each_call(calls, |call, n| {
        let data = folder.path().join("data");
        let _ = std::fs::remove_dir_all(&data);
        let log = folder.path().join("calls");
        let inject = format!("-e trace={call} -e inject={call}:signal=KILL:when={n}");
        let before = format!("exec strace -D -f -qq -o {} {inject}", log.display());
        let wrapper = wrapped(folder.path(), &before, BINARY);
        let is_up = Process::try_start(&wrapper, &data, &["--dialects=locks"]).is_ok();
        let loaded = start(&data).unwrap_or_else(|why| panic!("after {call} {n}: {why}"));
        assert_eq!(loaded.machine.counts().n_active, 0);
        leasehold_store::sqlite::verify(&data).expect("sound");
        n_kills += u32::from(!is_up);
        !is_up
    });
    println!("killed {n_kills} times before it listened");
    assert!(n_kills > 15, "{n_kills}");
}

/// Checks that a restore is refused with these words, and creates nothing.
fn check_refused(backup: &Path, words: &str) {
    let target = backup.with_file_name("never");
    let args = ["restore", text(backup), "--data", text(&target)];
    let (worked, said) = leasehold(&args);
    assert!(!worked && said.contains(words), "{said:?} does not say {words:?}");
    let left = std::fs::read_dir(target.parent().unwrap()).unwrap().map(Result::unwrap);
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with("never"));
    assert_eq!(left.count(), 0, "something was made all the same");
}

#[tokio::test]
async fn what_is_no_backup_or_a_damaged_one_is_refused_before_anything_is_made() {
    let folder = folder();
    let (data, backup) = some_store(folder.path()).await;
    let copy = folder.path().join("damaged");
    let damaged = |damage: &dyn Fn(&Path)| {
        let _ = std::fs::remove_dir_all(&copy);
        std::fs::create_dir(&copy).unwrap();
        content(&backup).iter().for_each(|(name, bytes)| {
            std::fs::write(copy.join(name), bytes).unwrap();
        });
        damage(&copy);
    };
    check_refused(&data, "is a data directory, not a backup");
    check_refused(&folder.path().join("nowhere"), "is missing");
    for name in ["journal.db", "tables.db"] {
        damaged(&|copy| std::fs::remove_file(copy.join(name)).unwrap());
        check_refused(&copy, &format!("{name} is missing"));
        damaged(&|copy| std::fs::write(copy.join(name), b"").unwrap());
        check_refused(&copy, name);
        damaged(&|copy| {
            let file = std::fs::OpenOptions::new().write(true).open(copy.join(name)).unwrap();
            file.set_len(file.metadata().unwrap().len() - 4096).unwrap();
        });
        check_refused(&copy, name);
    }
    damaged(&|copy| std::fs::write(copy.join("INCOMPLETE"), "backup\n").unwrap());
    check_refused(&copy, "is incomplete: the backup into it was interrupted");
}
