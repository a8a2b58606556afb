//! Disks that fail: every sync and every write of a short run in turn, and a limit on file sizes. The server reports
//! the error or stops, acknowledges nothing that is lost, and recovers without an operator.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they did"
)]

use std::path::{Path, PathBuf};

use leasehold_testkit::{Client, Process, Response, folder, json, wrapped};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");
/// More calls than one thread makes in a short run.
const CALLS_MAX: u32 = 60;

/// The acknowledged requests of a short run.
#[derive(Default)]
struct Told {
    held: Vec<Response>,
    released: Vec<String>,
}

/// Acquires a few locks and releases one, until a request fails.
async fn short_run(client: &Client) -> Told {
    let mut told = Told::default();
    for n in 0..4 {
        let answer = client.try_acquire(&format!("lock-{n}"), "a", 600_000, json!({})).await;
        match answer {
            Ok(answer) if answer.status == 200 => told.held.push(answer),
            Ok(answer) => {
                assert!(matches!(answer.status, 503 | 507), "{answer:?}");
                return told;
            }
            Err(_) => return told,
        }
    }
    let first = told.held.remove(0);
    match client.try_release(&first, json!({})).await {
        Ok(answer) if answer.status == 200 => told.released.push(first.text_of("lock_name")),
        Ok(answer) => assert!(matches!(answer.status, 503 | 507), "{answer:?}"),
        Err(_) => {}
    }
    told
}

/// Checks on a working disk that everything acknowledged is still true.
async fn check(data: &Path, told: &Told) {
    let server = Process::start(BINARY, data, &[]);
    for held in &told.held {
        let state = server.client.get(&format!("/v1/locks/{}", held.text_of("lock_name"))).await;
        assert_eq!(state.get("fencing_token"), held.get("fencing_token"), "{state:?}");
    }
    for lock in &told.released {
        let state = server.client.get(&format!("/v1/locks/{lock}")).await;
        assert_eq!(state.get("held"), false, "{state:?}");
    }
    assert!(server.terminate().success());
    leasehold_store::sqlite::verify(data).expect("sound");
    let names = std::fs::read_dir(data).unwrap().map(|file| file.unwrap().file_name());
    let aside: Vec<_> = names.filter(|name| name.to_string_lossy().contains("damaged")).collect();
    assert!(aside.is_empty(), "nothing was damaged, but this was moved aside: {aside:?}");
}

/// Creates a store that was used once, so that failures do not only affect its creation.
fn used_store(folder: &Path) -> PathBuf {
    let data = folder.join("used");
    assert!(Process::start(BINARY, &data, &[]).terminate().success());
    data
}

/// Runs the server with the fault that `before` injects on a copy of `store`, and then without it. Returns the number
/// of acknowledged requests.
async fn survive(folder: &Path, store: &Path, before: &str, flags: &[&str]) -> usize {
    let data = folder.join("data");
    let _ = std::fs::remove_dir_all(&data);
    if store.exists() {
        std::fs::create_dir(&data).unwrap();
        for file in std::fs::read_dir(store).unwrap().map(Result::unwrap) {
            if file.file_type().unwrap().is_file() {
                std::fs::copy(file.path(), data.join(file.file_name())).unwrap();
            }
        }
    }
    let mut told = Told::default();
    if let Ok(server) = Process::try_start(&wrapped(folder, before, BINARY), &data, flags) {
        told = short_run(&server.client).await;
        // The server folds the rest of the journal when it stops, which can also fail. Its exit status does not matter.
        let _ = server.terminate();
    }
    check(&data, &told).await;
    told.held.len() + told.released.len()
}

/// Makes the nth of these calls fail in each thread, for every n. With `file`, only calls on this file count, so that
/// more of the failing calls are those of the engine than those of the startup.
async fn every_call(calls: &str, error: &str, is_used: bool, file: Option<&str>, flags: &[&str]) {
    let folder = folder();
    let store = if is_used { used_store(folder.path()) } else { folder.path().join("none") };
    let log = folder.path().join("calls");
    let (mut n_failures, mut n_acknowledged) = (0, 0);
    for n in 1..CALLS_MAX {
        let inject = format!("-e trace={calls} -e inject={calls}:error={error}:when={n}");
        let only =
            file.map(|file| format!("-P {}", folder.path().join("data").join(file).display()));
        let only = only.unwrap_or_default();
        let before = format!("exec strace -D -f -qq -o {} {inject} {only}", log.display());
        n_acknowledged += survive(folder.path(), &store, &before, flags).await;
        if !std::fs::read_to_string(&log).unwrap_or_default().contains("INJECTED") {
            break;
        }
        n_failures += 1;
    }
    println!("{calls} {error}: {n_failures} failures, {n_acknowledged} acknowledged, all true");
    assert!(n_failures > 3, "hardly anything failed: {n_failures}");
    assert!(n_acknowledged > 0, "nothing was acknowledged that could have been lost");
}

#[tokio::test]
async fn a_sync_that_fails_anywhere_loses_nothing_that_was_acknowledged() {
    every_call("fsync,fdatasync", "EIO", true, None, &[]).await;
    every_call("fsync,fdatasync", "EIO", true, Some("journal.db-wal"), &[]).await;
}

#[tokio::test]
async fn a_full_disk_anywhere_loses_nothing_that_was_acknowledged() {
    for flags in [&[][..], &["--disk-reserve=4194304"]] {
        every_call("pwrite64", "ENOSPC", true, None, flags).await;
        every_call("pwrite64", "ENOSPC", true, Some("journal.db-wal"), flags).await;
    }
}

#[tokio::test]
async fn a_store_whose_making_fails_anywhere_is_made_by_the_next_start() {
    every_call("fsync,fdatasync", "EIO", false, None, &[]).await;
}

#[tokio::test]
async fn a_limit_on_the_size_of_files_loses_nothing_that_was_acknowledged() {
    let folder = folder();
    let store = used_store(folder.path());
    let mut n_acknowledged = 0;
    for n_blocks in [8, 40, 90, 110, 130, 160] {
        let before = format!("ulimit -f {n_blocks}\nexec");
        n_acknowledged += survive(folder.path(), &store, &before, &[]).await;
    }
    assert!(n_acknowledged > 0, "no limit was large enough to prove anything");
}

/// A file system in memory that becomes full. Its files are then copied to a disk with free space.
#[tokio::test]
async fn a_disk_that_is_full_loses_nothing_that_was_acknowledged_and_room_is_all_it_needs() {
    let folder = folder();
    let (data, kept) = (folder.path().join("data"), folder.path().join("kept"));
    std::fs::create_dir(&data).unwrap();
    // A separate mount in a separate namespace disappears at the end.
    let namespace = mount_namespace();
    let script = format!(
        "mount -t tmpfs -o size=600k none {data} && cp -r {used}/. {data} || exit\n\"$@\" & pid=$!\n\
         trap \"kill $pid\" TERM; wait $pid; wait $pid; cp -r {data} {kept}",
        used = used_store(folder.path()).display(),
        data = data.display(),
        kept = kept.display(),
    );
    let path = folder.path().join("script");
    std::fs::write(&path, script).unwrap();
    let before = format!("exec {namespace} sh {}", path.display());
    let server = Process::start(&wrapped(folder.path(), &before, BINARY), &data, &[]);
    let mut told = Told::default();
    for n in 0..400 {
        let more = json!({"metadata": "x".repeat(8_000)});
        let answer = server.client.try_acquire(&format!("lock-{n}"), "a", 600_000, more).await;
        match answer {
            Ok(answer) if answer.status == 200 => told.held.push(answer),
            Ok(answer) => assert!(matches!(answer.status, 503 | 507), "{answer:?}"),
            Err(_) => break,
        }
    }
    let _ = server.terminate();
    let n = told.held.len();
    assert!(n > 3 && n < 400, "either nothing fits or it was never full: {n}");
    check(&kept, &told).await;
    println!("{n} acknowledged before the disk was full, all true");
}

/// Returns a command that starts a program in a separate mount namespace, in which it can mount file systems.
fn mount_namespace() -> &'static str {
    match rustix::process::geteuid().is_root() {
        true => "unshare --mount",
        false => "unshare --mount --user --map-root-user",
    }
}

/// A file system in memory with space for a few files in addition to the required free space. Uploads must not use up
/// the space of the journal, which would stop the server.
#[tokio::test]
async fn uploads_end_before_the_disk_of_the_journal_is_full() {
    let folder = folder();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let script = format!("mount -t tmpfs -o size=300m none {} && exec \"$@\"", data.display());
    let before = format!("exec {} sh -c '{script}' sh", mount_namespace());
    let wrapped = wrapped(folder.path(), &before, BINARY);
    let server = Process::start(&wrapped, &data, &["--free-space-min=268435456"]);
    let opened = server.client.post("/auth/session", json!({})).await.unwrap();
    let session = format!("Bearer {}", opened.text_of("sessionId"));
    let headers = [("authorization", session.as_str())];
    let mut n_stored = 0;
    let refused = loop {
        let (path, bytes) = (format!("/file-{n_stored}"), vec![7; 8 << 20]);
        let answer =
            server.client.send_with(hyper::Method::PUT, &path, &headers, bytes).await.unwrap();
        if answer.status != 201 {
            break answer;
        }
        n_stored += 1;
    };
    assert_eq!(refused.status, 507, "{refused:?}");
    assert!(refused.text_of("message").contains("(free-space-min)"), "{refused:?}");
    assert!((1..8).contains(&n_stored), "300 MiB less 256 that stay free: {n_stored} files of 8");
    for n in 0..100 {
        let more = json!({"metadata": "x".repeat(8_000)});
        let held = server.client.acquire(&format!("lock-{n}"), "a", 600_000, more).await;
        assert_eq!(held.status, 200, "the journal has room: {held:?}");
    }
    assert!(server.terminate().success());
}
