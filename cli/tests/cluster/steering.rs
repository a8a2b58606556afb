//! `leasehold cluster` and `leasehold upgrade`, and what a server of a cluster reports about itself.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leasehold_testkit::{Client, Etcd, Method, Process, Value, folder, json, wrapped};
use rustix::process::{Pid, Signal, kill_process};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");
const PATIENCE: Duration = Duration::from_secs(180);

struct World {
    etcd: Etcd,
    store: String,
    /// The flags for connecting to etcd.
    access: Vec<String>,
    server: Process,
}

impl World {
    fn new(data: &Path) -> Self {
        Self::with(BINARY, data)
    }

    /// Starts a server that runs this program.
    fn with(binary: &str, data: &Path) -> Self {
        Self::on(Etcd::start(), &[], binary, data)
    }

    /// Starts a server on this etcd, with these flags for connecting to it.
    fn on(etcd: Etcd, access: &[&str], binary: &str, data: &Path) -> Self {
        let store = etcd.url("test");
        let init = Command::new(BINARY).args(["init", "--store", &store]).args(access).status();
        assert!(init.unwrap().success());
        let shared = format!("--store={store}");
        let flags = [&[&*shared, "--node-name=n1"], access].concat();
        let server = Process::start(binary, data, &flags);
        Self { etcd, store, access: access.iter().map(ToString::to_string).collect(), server }
    }

    fn ask(&self, words: &[&str]) -> (bool, String) {
        let mut command = Command::new(BINARY);
        command.args(words).args(&self.access).env("LEASEHOLD_STORE", &self.store);
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    fn does(&self, words: &[&str]) -> String {
        let (worked, said) = self.ask(words);
        assert!(worked, "{words:?}: {said}");
        said
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.does(&["cluster", "status", "--json"])).unwrap()
    }

    /// Returns a client with a new connection.
    fn newcomer(&self) -> Client {
        Client::new(self.server.address)
    }

    async fn until(&self, what: &str, path: &str, status: u16) {
        let began = Instant::now();
        loop {
            let answer = self.newcomer().send(Method::GET, path, None, "").await;
            if answer.is_ok_and(|answer| answer.status == status) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "not in time: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_sees_and_steers_the_servers() {
    let folder = folder();
    let world = World::new(folder.path());
    world.until("it leads", "/readyz", 200).await;
    assert_eq!(world.status()["leader"]["node"], "n1");
    let shown = world.does(&["cluster", "status"]);
    assert!(shown.contains("leader    n1 at ") && shown.contains("IN USE"), "{shown}");
    assert!(world.does(&["upgrade", "--finish"]).contains("nothing to finish"));
    assert!(!world.ask(&["upgrade"]).0, "--finish is to be said");

    let words = world.does(&["cluster", "pause"]);
    assert!(words.contains("the leader n1 continues"), "{words}");
    assert_eq!(world.status()["paused"], true);
    assert!(world.does(&["cluster", "status"]).contains("no server can become leader"));
    world.does(&["cluster", "resume"]);
    assert!(world.does(&["cluster", "resume"]).contains("were not paused"));
    assert!(world.does(&["cluster", "resume", "n1"]).contains("n1 was not drained"));

    for what in ["drain", "resume", "forget-node"] {
        let (worked, said) = world.ask(&["cluster", what, "n7"]);
        assert!(!worked && said.contains("no server is named \"n7\""), "{said}");
    }
    let endpoint = world.status()["etcd"][0]["endpoint"].clone();
    let is_told = |endpoint: &str| world.store.starts_with(&format!("etcd://{endpoint}/"));
    assert!(endpoint.as_str().is_some_and(is_told), "{endpoint}");
    assert!(world.does(&["cluster", "drain", "n1"]).contains("No other server can lead"));
    assert_eq!(world.status()["drained"], json!([["n1", "drain"]]));
    let began = Instant::now();
    loop {
        let refused = world.newcomer().get("/v1/locks/db").await;
        if refused.status == 503 && refused.text_of("error").contains("is drained") {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "it takes new connections: {refused:?}");
    }
    world.until("its health is told all the same", "/healthz", 200).await;
    world.does(&["cluster", "resume", "n1"]);
    world.until("it leads again", "/readyz", 200).await;
    assert_eq!(world.newcomer().acquire("db", "a", 60_000, json!({})).await.status, 200);

    let words = world.does(&["cluster", "step-down"]);
    assert!(words.contains("n1 hands over"), "{words}");
    assert!(words.contains("No other server can lead"), "{words}");
    world.until("it leads no more", "/readyz", 503).await;
    let words = world.does(&["cluster", "pause"]);
    assert!(words.contains("the cluster has no leader"), "{words}");
    world.does(&["cluster", "resume"]);
}

/// Another server reports that it cannot reach the leader, and that it has handed over leadership.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_sees_who_cannot_reach_the_leader_and_who_handed_over() {
    let folder = folder();
    let world = World::new(folder.path());
    world.until("it leads", "/readyz", 200).await;
    let unreached =
        json!({"leader": "n1", "seat": 0, "why": "wrong_secret", "for_ms": 9_000, "run": 1});
    let node = json!({"instance": "i", "process": "p", "address": "http://n2", "peer": "", "version": "1",
        "formats": [1], "seq": 1, "unreached": unreached});
    world.etcd.ctl(&["put", "/test/node/n2", &node.to_string()]);
    world.etcd.ctl(&["put", "/test/drain/n2", "handed-over"]);
    let shown = world.does(&["cluster", "status"]);
    assert!(shown.contains("handed-over; cannot reach n1: another peer secret"), "{shown}");
    let status = world.status();
    assert_eq!(status["drained"], json!([["n2", "handed-over"]]));
    assert_eq!(status["nodes"][1]["unreached"], json!({"leader": "n1", "why": "wrong_secret"}));
}

/// Another application overwrites keys that only servers should write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_values_in_etcd_are_reported_and_repaired() {
    let folder = folder();
    let world = World::new(folder.path());
    world.until("it leads", "/readyz", 200).await;
    // The server registers itself again.
    world.etcd.ctl(&["put", "/test/node/n1", "garbage"]);
    let began = Instant::now();
    while world.status()["nodes"][0]["node"] != "n1" {
        assert!(began.elapsed() < PATIENCE, "{}", world.status());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.etcd.ctl(&["put", "/test/node/n2", "garbage"]);
    world.etcd.ctl(&["put", "/test/leader", "garbage"]);
    world.until("it leads no more", "/leaderz", 503).await;
    let shown = world.does(&["cluster", "status"]);
    for words in ["leader    none", "leasehold cluster forget-node n2", "step-down deletes it"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    world.does(&["cluster", "forget-node", "n2"]);
    assert!(world.does(&["cluster", "step-down"]).contains("deleted a stale leader key"));
    world.until("it leads again", "/leaderz", 200).await;
    assert_eq!(world.status()["unreadable"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_shares_its_store_shows_what_it_is_and_how_etcd_is() {
    let folder = folder();
    let world = World::new(folder.path());
    world.until("it leads", "/readyz", 200).await;
    let began = Instant::now();
    loop {
        let answer = world.newcomer().send(Method::GET, "/metrics", None, "").await.unwrap();
        let text = answer.text.replace("{}", "");
        let wanted = [
            "leasehold_cluster_role{role=\"leader\"} 1",
            "leasehold_cluster_role{role=\"follower\"} 0",
            "leasehold_cluster_epoch 1",
            "leasehold_cluster_changes_total{change=\"taken\"} 1",
            "leasehold_cluster_lag_records 0",
            "leasehold_cluster_seen_seconds 0",
            "leasehold_cluster_keep_alive_seconds 0",
            "leasehold_cluster_confirm_seconds_count",
            "leasehold_etcd_quota_bytes 2147483648",
            "leasehold_etcd_bytes_in_use",
            "leasehold_etcd_alarms 0",
            "leasehold_etcd_silent_members 0",
        ];
        let missing: Vec<_> = wanted.iter().filter(|words| !text.contains(**words)).collect();
        if missing.is_empty() {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{missing:?} in {text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn a_server_that_still_looks_for_etcd_stops_when_it_is_told_to() {
    let folder = folder();
    // This listener accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("--store=etcd://{}/test", silent.local_addr().unwrap());
    let mut command = Command::new(BINARY);
    command.args(["serve", "--node-name=n1", "--listen=127.0.0.1:0", &store, "--data"]);
    let mut server = command.arg(folder.path()).stderr(Stdio::null()).spawn().unwrap();
    drop(silent.accept().unwrap());
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    // A server that misses the signal ends with 1 instead, because it finds no store.
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn a_password_in_an_address_is_refused_and_not_repeated() {
    let folder = folder();
    let store = "etcd://root:hunter2@a:1/x";
    let file = folder.path().join("leasehold.toml");
    std::fs::write(&file, format!("store = \"{store}\"\n")).unwrap();
    let file = format!("--config={}", file.display());
    let said = |words: &[&str], store: Option<&str>| {
        let mut command = Command::new(BINARY);
        command.args(words).envs(store.map(|store| ("LEASEHOLD_STORE", store)));
        let said = command.output().unwrap();
        let text = [said.stdout, said.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(!text.contains("hunter2"), "{words:?}: {text}");
        (said.status.success(), text)
    };
    for words in [
        &["init", "--store", store][..],
        &["serve", "--log-format=json", "--store", store],
        &["cluster", "status", "--store", "http://root:hunter2@a:1/x"],
        &["serve", &file],
        &["check-config", &file],
    ] {
        let (worked, text) = said(words, None);
        assert!(!worked && text.contains("use --etcd-user and --etcd-password-file"), "{text}");
    }
    for words in [&["serve"][..], &["cluster", "status"], &["check-config"]] {
        let (worked, text) = said(words, Some(store));
        assert!(!worked && text.contains("use --etcd-user and --etcd-password-file"), "{text}");
    }
    assert!(said(&["init", "--help"], Some(store)).0, "it only explains");
    let (worked, text) = said(&["serve", "--data", "etcd://a:1/x"], None);
    assert!(!worked && text.contains("for a store in etcd, use --store"), "{text}");
}

/// The log names the member and the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_without_etcd_says_which_member_does_not_answer_and_why() {
    let folder = folder();
    let log = folder.path().join("log");
    let logged = wrapped(folder.path(), &format!("exec 2>{}\nexec", log.display()), BINARY);
    let mut world = World::with(&logged, &folder.path().join("data"));
    world.until("it leads", "/readyz", 200).await;
    let member = world.etcd.addresses().remove(0);
    world.etcd.kill(0);
    let silent = "the store is unavailable";
    let began = Instant::now();
    loop {
        let text = std::fs::read_to_string(&log).unwrap();
        if let Some(line) = text.lines().find(|line| line.contains(silent)) {
            let why = line.split(&format!("etcd at {member}: ")).nth(1);
            assert!(why.is_some_and(|why| why.starts_with(char::is_alphabetic)), "{line}");
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.etcd.restart(0);
    world.until("it leads again", "/readyz", 200).await;
}

/// The server reads the password file each time etcd requests authentication.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_can_be_changed_and_a_wrong_one_is_said_to_be_refused() {
    let (folder, etcd) = (folder(), Etcd::start());
    let file = folder.path().join("password");
    etcd.ctl(&["user", "add", "root:secret"]);
    etcd.ctl(&["auth", "enable"]);
    let change = |etcd: &Etcd, password: &str| {
        for words in [&["add", &format!("lock:{password}")], &["grant-role", "lock", "root"][..]] {
            etcd.ctl(&[&["--user", "root:secret", "user"], words].concat());
        }
    };
    change(&etcd, "first");
    std::fs::write(&file, "first\n").unwrap();
    let access = ["--etcd-user=lock", &format!("--etcd-password-file={}", file.display())];
    let world = World::on(etcd, &access, BINARY, &folder.path().join("data"));
    world.until("it leads", "/readyz", 200).await;

    world.etcd.ctl(&["--user", "root:secret", "user", "delete", "lock"]);
    change(&world.etcd, "second");
    world.until("it is not let in", "/readyz", 503).await;
    let (worked, said) = world.ask(&["cluster", "status"]);
    assert!(!worked && said.contains("authentication failed"), "{said}");
    assert!(
        said.contains(&format!("{} rejects the credentials", world.etcd.addresses()[0])),
        "{said}"
    );

    std::fs::write(&file, "second\n").unwrap();
    world.until("it is", "/readyz", 200).await;
    world.does(&["cluster", "status"]);
}
