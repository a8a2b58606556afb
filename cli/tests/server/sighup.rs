//! SIGHUP: which settings are reloaded, and what is logged.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;
use std::time::{Duration, Instant};

use leasehold_testkit::{Process, Signal, folder, json, wrapped};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");

#[tokio::test]
async fn sighup_does_not_end_a_server() {
    let data = folder();
    let server = Process::start(BINARY, &data.path().join("data"), &[]);
    server.signal(Signal::HUP);
    assert_eq!(server.client.acquire("db", "a", 60_000, json!({})).await.status, 200);
    server.signal(Signal::HUP);
    assert_eq!(server.client.get("/readyz").await.status, 200);
    assert!(server.terminate().success());
}

/// Waits until the log contains these words `n` times.
async fn logged(log: &Path, words: &str, n: usize) {
    let began = Instant::now();
    loop {
        let text = std::fs::read_to_string(log).unwrap();
        if text.matches(words).count() >= n {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{words:?} is not in {text}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn sighup_reads_the_log_filter_again_and_says_what_needs_a_restart() {
    let folder = folder();
    let [data, config, log] = ["data", "config.toml", "log"].map(|name| folder.path().join(name));
    let binary = wrapped(folder.path(), &format!("exec 2>{}\nexec", log.display()), BINARY);
    std::fs::write(&config, "log = \"warn\"\n").unwrap();
    let server = Process::start(&binary, &data, &[&format!("--config={}", config.display())]);
    // The log line of a grant is written before the response is sent.
    let n_grants = async |name: &str| {
        assert_eq!(server.client.acquire(name, "a", 60_000, json!({})).await.status, 200);
        std::fs::read_to_string(&log).unwrap().matches("\"what\":\"granted\"").count()
    };
    assert_eq!(n_grants("one").await, 0, "a warning is more than that");
    std::fs::write(&config, "log = \"debug\"\nbatch-max = 7\n").unwrap();
    server.signal(Signal::HUP);
    logged(&log, "restart it to change batch-max\"", 1).await;
    assert_eq!(n_grants("two").await, 1);
    for (wrong, words) in [
        ("log = \"info\"\nno-such-setting = 1\n", "there is no setting"),
        ("log = \"info,=x=\"\n", "--log: invalid filter"),
    ] {
        std::fs::write(&config, wrong).unwrap();
        server.signal(Signal::HUP);
        logged(&log, words, 1).await;
    }
    assert_eq!(n_grants("three").await, 2, "what is wrong changes nothing");
    std::fs::write(&config, "log = \"info\"\n").unwrap();
    server.signal(Signal::HUP);
    logged(&log, "reread the settings\"", 1).await;
    assert_eq!(n_grants("four").await, 3, "a change is worth that much");
    std::fs::write(&config, "").unwrap();
    server.signal(Signal::HUP);
    logged(&log, "reread the settings\"", 2).await;
    assert_eq!(n_grants("five").await, 3, "grants are not logged by default");
    assert!(server.terminate().success());
}

#[tokio::test]
async fn every_sighup_says_what_came_of_the_auth_file_and_the_audit_file() {
    let folder = folder();
    let [data, auth, log, audit] =
        ["data", "auth.toml", "log", "audit.log"].map(|name| folder.path().join(name));
    let binary = wrapped(folder.path(), &format!("exec 2>{}\nexec", log.display()), BINARY);
    let good = "version = 1\nrule = [{name='a', who=['*'], may=['read'], namespaces=['*']}]\n";
    std::fs::write(&auth, good).unwrap();
    let flags =
        [("auth", &auth), ("audit", &audit)].map(|(n, f)| format!("--{n}-file={}", f.display()));
    let server = Process::start(&binary, &data, &flags.each_ref().map(String::as_str));
    server.signal(Signal::HUP);
    logged(&log, "auth file is valid and unchanged", 1).await;
    logged(&log, "reopened the audit file", 1).await;
    std::fs::write(&auth, "version = 2\n").unwrap();
    for n in 1..=3 {
        server.signal(Signal::HUP);
        logged(&log, "version must be 1", n).await;
    }
    for (text, words, n) in [
        ("version = 1\nrule = 3\n", "auth.toml:2: ", 1),
        (good, "auth file is valid and unchanged", 2),
        (&format!("{good}# another\n"), "auth file changed and is now active", 1),
    ] {
        std::fs::write(&auth, text).unwrap();
        server.signal(Signal::HUP);
        logged(&log, words, n).await;
    }
    assert!(server.terminate().success());
}
