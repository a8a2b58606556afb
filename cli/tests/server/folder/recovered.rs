//! A recovery that is killed, or fails, at any call that changes the disk.

use std::collections::BTreeMap;
use std::path::Path;

use leasehold_core::{Acquire, Acquired, Dialect, LockKey, Owner, Secret, Span};
use leasehold_store::sqlite::verify;
use leasehold_testkit::{Process, copy_store, folder, json};

use crate::folder::interrupted::{each_call, injected};
use crate::folder::{BINARY, content, leasehold, start, text};

/// The system calls with which a recovery changes the disk.
const CHANGES: &str = "fsync,fdatasync,rename,unlink,unlinkat,rmdir,mkdir,pwrite64,write,ftruncate,copy_file_range,\
                       sendfile";
/// The calls that a failing disk makes fail.
const FAILING: &str = "fsync,fdatasync,rename,unlink,mkdir,pwrite64,ftruncate";

/// The state of a damaged directory after an interrupted recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Left {
    /// The directory is still refused.
    Refused,
    /// The damaged part is gone and was not needed: no lease is lost.
    Whole,
    /// The directory starts as a recovered one.
    Recovered,
}

fn left(data: &Path) -> Left {
    match verify(data) {
        Err(_) => Left::Refused,
        Ok(report) if report.is_backup => Left::Recovered,
        Ok(report) => {
            assert_eq!(report.counts.n_active, N_LOCKS, "it counts as sound, and a lease is lost");
            Left::Whole
        }
    }
}

const N_LOCKS: usize = 3;

/// Runs a server that grants leases, kills it, and returns the highest token.
async fn crashed(data: &Path, flags: &[&str]) -> u64 {
    let server = Process::start(BINARY, data, flags);
    let mut token = 0;
    for n in 0..N_LOCKS {
        let granted = server.client.acquire(&format!("lock-{n}"), "a", 600_000, json!({})).await;
        token = token.max(granted.number("fencing_token"));
    }
    server.kill();
    token
}

fn flip(path: &Path, at: impl Fn(usize) -> usize) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = at(bytes.len());
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Returns every copy of damaged files that was kept.
fn kept(data: &Path) -> Vec<BTreeMap<String, Vec<u8>>> {
    let names = (1..).map(|n| data.join(format!("damaged-{n}")));
    names.take_while(|path| path.exists()).map(|path| content(&path)).collect()
}

/// Checks that the store starts as a recovered one, and that no token is granted twice.
fn check_recovered(data: &Path, token: u64, what: &str) {
    let loaded = start(data).unwrap_or_else(|why| panic!("{what}: {why}"));
    assert!(loaded.is_restored, "{what}: taken for something else than a recovered store");
    let mut machine = loaded.machine;
    assert_eq!(machine.counts().n_active, 0, "{what}: a lease is alive");
    let lock = LockKey::new("default", "lock-0");
    let acquire = Acquire::new(lock, Owner::new("b", "b"), Dialect(0), Secret([1; 16]));
    let acquire = Acquire { ttl: Some(Span::from_secs(60)), ..acquire };
    let applied = machine.apply(machine.now(), acquire);
    let Ok(Acquired::Granted(grant)) = applied.outcome else { panic!("{what}: {applied:?}") };
    assert!(grant.lease.token.get() > token + (1 << 39), "{what}: {grant:?}");
}

/// Interrupts the recovery of a damaged directory at each of its calls in turn, and then lets it finish.
fn interrupt_each(parent: &Path, damaged: &Path, token: u64, calls: &str, how: &str) {
    let (data, log) = (parent.join("data"), parent.join("calls"));
    let before = content(damaged);
    let args = ["recover", text(&data), "--accept-loss"];
    let mut seen = Vec::new();
    each_call(calls, |call, n| {
        let what = format!("{how} at {call} {n}");
        let _ = std::fs::remove_dir_all(&data);
        std::fs::create_dir(&data).unwrap();
        copy_store(damaged, &data);
        let (was_injected, worked) = injected(&log, how, call, n, &args);
        let became = left(&data);
        assert!(!worked || became == Left::Recovered, "{what}: it says it worked: {became:?}");
        if became == Left::Refused {
            let (worked, said) = leasehold(&args);
            assert!(worked, "{what}: a second attempt fails: {said}");
        }
        if became != Left::Whole {
            assert!(kept(&data).contains(&before), "{what}: the damaged files are not kept");
            check_recovered(&data, token, &what);
        }
        seen.extend(was_injected.then_some(became));
        was_injected
    });
    let count = |left| seen.iter().filter(|seen| **seen == left).count();
    let counts = [Left::Refused, Left::Whole, Left::Recovered].map(|left| (left, count(left)));
    println!("{how}: {counts:?}");
    assert!(count(Left::Refused) > 10 && count(Left::Recovered) > 0, "{counts:?}");
}

#[tokio::test]
async fn a_recovery_that_ends_anywhere_leaves_a_folder_that_is_refused_or_whole_or_recovered() {
    let parent = folder();
    let damaged = parent.path().join("damaged");
    let token = crashed(&damaged, &["--fold-interval=1h"]).await;
    remove_all_but_the_store(&damaged);
    // In the middle of the acknowledged changes.
    flip(&damaged.join("journal.db-wal"), |n| n / 2);
    interrupt_each(parent.path(), &damaged, token, CHANGES, "signal=KILL");
    interrupt_each(parent.path(), &damaged, token, FAILING, "error=EIO");
}

#[tokio::test]
async fn the_same_where_the_tables_are_damaged_too() {
    let parent = folder();
    let damaged = parent.path().join("damaged");
    let token = crashed(&damaged, &["--fold-interval=1h"]).await;
    assert!(Process::start(BINARY, &damaged, &[]).terminate().success(), "folded");
    remove_all_but_the_store(&damaged);
    // The name of a lock, as it is stored in its row.
    let name = b"lock-1";
    flip(&damaged.join("tables.db"), |_| {
        let bytes = std::fs::read(damaged.join("tables.db")).unwrap();
        bytes.windows(name.len()).position(|found| found == name).expect("a row")
    });
    interrupt_each(parent.path(), &damaged, token, CHANGES, "signal=KILL");
}

/// Removes the other files of a server, which do not matter here.
fn remove_all_but_the_store(data: &Path) {
    let store = folder();
    copy_store(data, store.path());
    std::fs::remove_dir_all(data).unwrap();
    std::fs::create_dir(data).unwrap();
    copy_store(store.path(), data);
}
