//! `leasehold cluster` and `upgrade`, and what a server that shares its store shows of itself.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::process::Command;
use std::time::{Duration, Instant};

use leasehold_testkit::{Client, Etcd, Method, Process, Value, folder, json};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");
const PATIENCE: Duration = Duration::from_secs(30);

struct World {
    etcd: Etcd,
    store: String,
    server: Process,
}

impl World {
    fn new(data: &std::path::Path) -> Self {
        let etcd = Etcd::start();
        let store = etcd.url("test");
        let init = Command::new(BINARY).args(["init", "--store", &store]).status();
        assert!(init.unwrap().success());
        let flags = [&format!("--store={store}"), "--node-name=n1"];
        let server = Process::start(BINARY, data, &flags);
        Self { etcd, store, server }
    }

    fn ask(&self, words: &[&str]) -> (bool, String) {
        let mut command = Command::new(BINARY);
        let output = command.args(words).env("LEASEHOLD_STORE", &self.store).output().unwrap();
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

    /// A connection of its own.
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
    assert!(words.contains("n1, which leads, goes on"), "{words}");
    assert_eq!(world.status()["paused"], true);
    assert!(world.does(&["cluster", "status"]).contains("nobody takes the lead"));
    world.does(&["cluster", "resume"]);
    assert!(world.does(&["cluster", "resume"]).contains("were not paused"));
    assert!(world.does(&["cluster", "resume", "n1"]).contains("n1 was not drained"));

    for what in ["drain", "resume", "forget-node"] {
        let (worked, said) = world.ask(&["cluster", what, "n7"]);
        assert!(!worked && said.contains("there is no server \"n7\""), "{said}");
    }
    let endpoint = world.status()["etcd"][0]["endpoint"].clone();
    let is_told = |endpoint: &str| world.store.starts_with(&format!("etcd://{endpoint}/"));
    assert!(endpoint.as_str().is_some_and(is_told), "{endpoint}");
    assert!(world.does(&["cluster", "drain", "n1"]).contains("No other server is there"));
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
    assert!(words.contains("n1 gives up the lead"), "{words}");
    assert!(words.contains("No other server is there that could lead"), "{words}");
    world.until("it leads no more", "/readyz", 503).await;
    let words = world.does(&["cluster", "pause"]);
    assert!(words.contains("nobody leads at present"), "{words}");
    world.does(&["cluster", "resume"]);
}

/// Somebody writes where only servers may.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_else_wrote_does_not_blind_the_operator_and_is_mended() {
    let folder = folder();
    let world = World::new(folder.path());
    world.until("it leads", "/readyz", 200).await;
    // A server puts its own key anew.
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
    for words in ["leader    nobody", "leasehold cluster forget-node n2", "step-down deletes it"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    world.does(&["cluster", "forget-node", "n2"]);
    assert!(world.does(&["cluster", "step-down"]).contains("it is deleted"));
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
        ];
        let missing: Vec<_> = wanted.iter().filter(|words| !text.contains(**words)).collect();
        if missing.is_empty() {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{missing:?} in {text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
