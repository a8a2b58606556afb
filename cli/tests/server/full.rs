//! A disk that another program fills while the server runs: holders keep their locks, no lock is granted, and the
//! server recovers once there is space.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they did"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use leasehold_testkit::{Client, Process, Response, folder, json, wrapped};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");
const N_HOLDERS: usize = 16;
/// The number of holders that hold locks with metadata, and of clients that renew for them at the same time.
const N_HOLDERS_WITH_METADATA: usize = 1000;
const N_CLIENTS: usize = 16;
/// Number of their renewals: many times what the write-ahead logs and the unused pages of the databases take.
const N_RENEWALS_WITH_METADATA: usize = 20_000;
/// Number of renewals: more than the commits that fit into the write-ahead log before SQLite reuses it from the start.
const N_RENEWALS: usize = 1500;
const RESERVE: u64 = 8 << 20;
const FLAGS: [&str; 3] =
    ["--disk-reserve=8388608", "--disk-free-min=4194304", "--fold-interval=100ms"];

/// A small file system in memory that only some processes see, until this is dropped.
struct SmallDisk {
    keeper: Child,
    mounted_at: PathBuf,
}

impl SmallDisk {
    fn mount(at: &Path, size: &str) -> Self {
        std::fs::create_dir(at).unwrap();
        let script = format!("mount -t tmpfs -o size={size} none {} && echo && cat", at.display());
        let mut command = Command::new("unshare");
        command.arg("--mount");
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["sh", "-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "\n", "it is mounted");
        Self { keeper, mounted_at: at.into() }
    }

    /// Returns the command that starts a program so that it sees the disk.
    fn before(&self) -> String {
        let user = match rustix::process::geteuid().is_root() {
            true => "",
            false => "--user --preserve-credentials",
        };
        format!("exec nsenter --target {} --mount {user}", self.keeper.id())
    }

    /// Returns the path by which this process reaches the disk.
    fn seen(&self) -> PathBuf {
        let path = format!("/proc/{}/root{}", self.keeper.id(), self.mounted_at.display());
        path.into()
    }

    /// Fills the disk completely.
    fn fill(&self) {
        fill(&self.seen());
    }

    /// Keeps the disk full until the result is dropped: takes all space that is freed.
    fn keep_full(&self) -> Filler {
        self.fill();
        let (disk, is_over) = (self.seen(), Arc::<AtomicBool>::default());
        let thread = std::thread::spawn({
            let is_over = is_over.clone();
            move || {
                while !is_over.load(SeqCst) {
                    fill(&disk);
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        });
        Filler { is_over, thread: Some(thread) }
    }

    /// Copies the files of the disk to `folder`. SQLite cannot open them by the path that this process uses.
    fn copy_to(&self, folder: &Path) {
        std::fs::create_dir(folder).unwrap();
        for file in std::fs::read_dir(self.seen()).unwrap().map(Result::unwrap) {
            if file.file_type().unwrap().is_file() {
                std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
            }
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.seen().join("fill")).unwrap();
    }
}

fn fill(disk: &Path) {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.create(true).append(true).open(disk.join("fill")).unwrap();
    for n_bytes in [64 << 10, 4096] {
        while file.write_all(&vec![1; n_bytes]).is_ok() {}
    }
}

/// A program that keeps a disk full.
struct Filler {
    is_over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// Clients that renew their leases, one request after the other, until they are stopped.
struct Holders {
    is_over: Arc<AtomicBool>,
    n_renewals: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Holders {
    fn renew(client: &Client, held: &[Response]) -> Self {
        let (is_over, n_renewals) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let task = |leases: &[Response]| {
            let (client, leases) = (client.clone(), leases.to_vec());
            let (is_over, n_renewals) = (is_over.clone(), n_renewals.clone());
            tokio::spawn(async move {
                for lease in leases.iter().cycle().take_while(|_| !is_over.load(SeqCst)) {
                    let renewed = client.renew(lease, 600_000, json!({})).await;
                    assert_eq!(renewed.status, 200, "a holder renews on a full disk: {renewed:?}");
                    n_renewals.fetch_add(1, SeqCst);
                }
            })
        };
        let tasks = held.chunks(held.len().div_ceil(N_CLIENTS)).map(task).collect();
        Self { is_over, n_renewals, tasks }
    }

    /// Waits for this many more renewals, and keeps filling the disk in the meantime.
    async fn until_renewed(&self, n: usize, disk: &SmallDisk) {
        let target = self.n_renewals.load(SeqCst) + n;
        while self.n_renewals.load(SeqCst) < target {
            assert!(self.tasks.iter().all(|task| !task.is_finished()), "a holder failed");
            disk.fill();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for this many more renewals, while another program keeps the disk full.
    async fn until_renewed_on_full_disk(&self, n: usize) {
        let target = self.n_renewals.load(SeqCst) + n;
        while self.n_renewals.load(SeqCst) < target {
            assert!(self.tasks.iter().all(|task| !task.is_finished()), "a holder failed");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn stop(self) {
        self.is_over.store(true, SeqCst);
        for task in self.tasks {
            task.await.expect("every renewal succeeded");
        }
    }
}

async fn until(client: &Client, path: &str, is_wanted: impl Fn(&Response) -> bool) -> Response {
    for _ in 0..24_000 {
        let answer = client.get(path).await;
        if is_wanted(&answer) {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never: {:?}", client.get(path).await);
}

async fn metric(client: &Client, name: &str) -> u64 {
    let metrics = client.get("/metrics").await.text;
    let line = metrics.lines().find(|line| line.starts_with(&format!("{name}{{}} ")));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("a metric")
}

async fn acquire_all(client: &Client) -> Vec<Response> {
    let mut held = Vec::new();
    for n in 0..N_HOLDERS {
        let answer = client.acquire(&format!("held-{n}"), "a", 600_000, json!({})).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        held.push(answer);
    }
    held
}

async fn check_held(client: &Client, held: &[Response]) {
    for lease in held {
        let state = client.get(&format!("/v1/locks/{}", lease.text_of("lock_name"))).await;
        assert_eq!(state.get("fencing_token"), lease.get("fencing_token"), "{state:?}");
    }
}

/// Checks that no lock is granted, and that the server reports the reason.
async fn check_refused(client: &Client) {
    let not_ready = until(client, "/readyz", |answer| answer.status == 503).await;
    assert!(not_ready.text_of("error").contains("disk space is low"), "{not_ready:?}");
    assert_eq!(metric(client, "leasehold_disk_low").await, 1);
    let refused = client.acquire("more", "b", 600_000, json!({})).await;
    assert_eq!((refused.status, refused.text_of("code").as_str()), (503, "JOURNAL_FULL"));
    assert!(refused.text_of("error").contains("disk-free-min"), "{refused:?}");
    assert_eq!(refused.get("may_have_taken_effect"), false);
    let lease = json!({
        "tenant_id": "t", "lock_key": "more", "owner_id": "b", "ttl_seconds": 60, "request_id": "r",
    });
    for (path, body) in [
        ("/leases/acquire", lease),
        ("/v1/claims/", json!({"resource": "more", "timeout": 60})),
        ("/v1/sessions", json!({"owner_id": "b", "ttl_ms": 60_000})),
    ] {
        let refused = client.post(path, body).await.unwrap();
        assert_eq!(refused.status, 503, "{path}: {refused:?}");
        assert!(refused.text.contains("disk-free-min"), "{path}: {refused:?}");
    }
}

#[tokio::test]
async fn on_a_full_disk_holders_renew_and_release_and_all_is_well_when_there_is_space() {
    let folder = folder();
    let data = folder.path().join("data");
    let disk = SmallDisk::mount(&data, "40m");
    let start = || Process::start(&wrapped(folder.path(), &disk.before(), BINARY), &data, &FLAGS);
    let server = start();
    let client = &server.client;
    assert_eq!(client.get("/readyz").await.status, 200);
    assert_eq!(metric(client, "leasehold_disk_low").await, 0);
    assert_eq!(metric(client, "leasehold_disk_reserve_bytes").await, RESERVE);
    let mut held = acquire_all(client).await;
    let brief = client.acquire("brief", "a", 1000, json!({})).await;
    assert_eq!(brief.status, 200);

    let holders = Holders::renew(client, &held);
    disk.fill();
    check_refused(client).await;
    holders.until_renewed(N_RENEWALS, &disk).await;
    holders.stop().await;
    let released = held.pop().unwrap();
    assert_eq!(client.release(&released, json!({})).await.status, 200, "releases continue");
    until(client, "/v1/locks/brief", |state| state.get("held") == false).await;
    check_refused(client).await;

    // After a kill and after a clean stop, a start on the full disk needs no space but the reserve.
    server.kill();
    for is_killed in [true, false] {
        disk.fill();
        let server = start();
        check_held(&server.client, &held).await;
        check_refused(&server.client).await;
        let holders = Holders::renew(&server.client, &held);
        holders.until_renewed(N_RENEWALS / 10, &disk).await;
        holders.stop().await;
        if is_killed {
            server.kill();
        } else {
            assert!(server.terminate().success(), "also the last fold finds space");
        }
    }

    disk.fill();
    let server = start();
    let client = &server.client;
    check_refused(client).await;
    let reserve = metric(client, "leasehold_disk_reserve_bytes").await;
    assert!(reserve > 0, "three starts need little of it");
    disk.free();
    until(client, "/readyz", |answer| answer.status == 200).await;
    assert_eq!(metric(client, "leasehold_disk_reserve_bytes").await, RESERVE);
    let more = client.acquire("more", "b", 600_000, json!({})).await;
    assert_eq!(more.status, 200, "without a restart: {more:?}");
    held.push(more);
    check_held(client, &held).await;
    let state = client.get(&format!("/v1/locks/{}", released.text_of("lock_name"))).await;
    assert_eq!(state.get("held"), false, "{state:?}");
    assert!(server.terminate().success());
    let kept = folder.path().join("kept");
    disk.copy_to(&kept);
    leasehold_store::sqlite::verify(&kept).expect("sound");
    println!("{reserve} of {RESERVE} bytes of the reserve were left");
}

#[tokio::test]
async fn a_program_that_takes_all_freed_space_does_not_stop_a_thousand_holders() {
    let folder = folder();
    let data = folder.path().join("data");
    let disk = SmallDisk::mount(&data, "64m");
    let start = || Process::start(&wrapped(folder.path(), &disk.before(), BINARY), &data, &FLAGS);
    let server = start();
    let client = &server.client;
    let (mut held, metadata) = (Vec::new(), json!({"metadata": {"x": "y".repeat(200)}}));
    for n in 0..N_HOLDERS_WITH_METADATA {
        let answer = client.acquire(&format!("held-{n}"), "a", 600_000, metadata.clone()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        held.push(answer);
    }
    let session = client.post("/auth/session", json!({})).await.unwrap();
    let token = format!("Bearer {}", session.text_of("sessionId"));
    let edit = async |path: &str| {
        let headers = [("authorization", token.as_str())];
        client.send_with(hyper::Method::GET, path, &headers, "").await.unwrap()
    };
    assert_eq!(edit("/f?lock=acquire").await.status, 200);

    let filler = disk.keep_full();
    let holders = Holders::renew(client, &held);
    holders.until_renewed_on_full_disk(N_RENEWALS_WITH_METADATA).await;
    check_refused(client).await;
    holders.stop().await;
    let reserve = metric(client, "leasehold_disk_reserve_bytes").await;
    assert_eq!(reserve, RESERVE, "renewals need no new space");
    let renewed = edit("/f?lock=acquire").await;
    assert_eq!(renewed.status, 200, "the session that holds the lock renews it: {renewed:?}");
    assert_eq!(edit("/f2?lock=acquire").await.status, 503);
    server.kill();

    // A start needs a little space, and the other program takes part of it.
    let server = start();
    check_held(&server.client, &held).await;
    let holders = Holders::renew(&server.client, &held);
    holders.until_renewed_on_full_disk(N_RENEWALS_WITH_METADATA / 4).await;
    holders.stop().await;
    drop(filler);
    let reserve = metric(&server.client, "leasehold_disk_reserve_bytes").await;
    assert!(reserve >= RESERVE / 2, "{reserve} bytes of the reserve are left");
    disk.free();
    until(&server.client, "/readyz", |answer| answer.status == 200).await;
    check_held(&server.client, &held).await;
    assert!(server.terminate().success());
    let kept = folder.path().join("kept");
    disk.copy_to(&kept);
    leasehold_store::sqlite::verify(&kept).expect("sound");
    println!("{reserve} of {RESERVE} bytes of the reserve were left after a start");
}

#[tokio::test]
async fn a_server_stops_only_when_its_reserve_is_used_up_and_says_where_space_is_needed() {
    let folder = folder();
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    // From a certain write on, every write fails for lack of space, even after the reserve is released.
    let before = format!(
        "exec 2>{}\nexec strace -D -f -qq -o {} -e trace=pwrite64 -e inject=pwrite64:error=ENOSPC:when=200+ -P {}",
        log.display(),
        folder.path().join("calls").display(),
        data.join("journal.db-wal").display(),
    );
    let program = wrapped(folder.path(), &before, BINARY);
    let flags = ["--disk-reserve=4194304", "--log-format=text"];
    let mut server = Process::start(&program, &data, &flags);
    let held = acquire_all(&server.client).await;
    let renew = async || server.client.try_renew(&held[0], 600_000, json!({})).await;
    while renew().await.is_ok_and(|renewed| renewed.status == 200) {}
    assert!(!server.wait().success());
    let said = std::fs::read_to_string(&log).unwrap();
    for expected in ["the server uses its reserve", "is used up", "journal.db", "Free some space"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let server = Process::start(BINARY, &data, &flags);
    check_held(&server.client, &held).await;
    assert!(server.terminate().success());
}
