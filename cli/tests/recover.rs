//! Damage after a kill, through the real program: `serve` and `verify` refuse alike, and `recover` leads on.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;
use std::process::{Command, Output};

use leasehold_testkit::{Process, folder, json};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");

fn leasehold(args: &[&str], data: &Path) -> Output {
    Command::new(BINARY).args(args).arg(data).output().unwrap()
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[tokio::test]
async fn a_flipped_bit_in_a_hot_log_is_refused_and_recovered_from() {
    let parent = folder();
    let data = parent.path().join("data");
    let server = Process::start(BINARY, &data, &["--fold-interval=1h"]);
    let mut token = 0;
    for n in 0..5 {
        let granted = server.client.acquire(&format!("lock-{n}"), "a", 3_600_000, json!({})).await;
        token = token.max(granted.number("fencing_token"));
    }
    server.kill();
    assert_eq!(leasehold(&["verify"], &data).status.code(), Some(0), "a crash is no damage");
    let path = data.join("journal.db-wal");
    let mut log = std::fs::read(&path).unwrap();
    let middle = log.len() / 2;
    log[middle] ^= 1;
    std::fs::write(&path, log).unwrap();
    for args in [&["verify"][..], &["serve", "--listen", "127.0.0.1:0", "--data"], &["recover"]] {
        let refused = leasehold(args, &data);
        assert!(!refused.status.success(), "{args:?}");
        assert!(text(&refused).contains("and were acknowledged"), "{args:?}: {}", text(&refused));
    }
    let recovered = leasehold(&["recover", "--accept-loss"], &data);
    assert!(recovered.status.success(), "{}", text(&recovered));
    assert!(text(&recovered).contains("lost      records"), "{}", text(&recovered));
    assert!(data.join("damaged-1/journal.db-wal").is_file());
    let server = Process::start(BINARY, &data, &[]);
    let granted = server.client.acquire("lock-0", "b", 1000, json!({})).await;
    assert_eq!(granted.status, 200, "no lease is alive: {granted:?}");
    assert!(granted.number("fencing_token") > token + (1 << 39), "{granted:?}");
}
