//! Damage after a kill, with the real program: `serve` and `verify` give the same verdict, and `recover` makes the
//! directory usable again.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print their seeds"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use leasehold_testkit::{Client, Damages, Process, TempDir, Value, copy_store, folder, json};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");

fn leasehold(args: &[&str], data: &Path) -> Output {
    Command::new(BINARY).args(args).arg(data).output().unwrap()
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn a_folder_without_a_store_is_left_alone() {
    let parent = folder();
    for name in ["empty", "missing"] {
        let data = parent.path().join(name);
        if name == "empty" {
            std::fs::create_dir(&data).unwrap();
        }
        let recovered = leasehold(&["recover", "--accept-loss"], &data);
        assert_eq!(recovered.status.code(), Some(1));
        let said = text(&recovered);
        assert!(said.contains("this directory contains no store"), "{said}");
        assert!(std::fs::read_dir(&data).map_or(0, |files| files.count()) == 0, "{name}");
    }
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
    assert!(!text(&recovered).contains("recovered.part"), "{}", text(&recovered));
    assert!(text(&recovered).contains("lost      records"), "{}", text(&recovered));
    assert!(data.join("damaged-1/journal.db-wal").is_file());
    let server = Process::start(BINARY, &data, &[]);
    let granted = server.client.acquire("lock-0", "b", 1000, json!({})).await;
    assert_eq!(granted.status, 200, "no lease is alive: {granted:?}");
    assert!(granted.number("fencing_token") > token + (1 << 39), "{granted:?}");
}

/// The directory that a killed server left, and the token of every lease that the server had granted.
struct Killed {
    folder: TempDir,
    tokens: BTreeMap<String, u64>,
}

/// Runs one or two servers after each other, and kills each of them.
async fn killed(lives: &[&str]) -> Killed {
    let (parent, folder) = (folder(), folder());
    let data = parent.path().join("data");
    let mut tokens = BTreeMap::new();
    for (life, fold_interval) in lives.iter().enumerate() {
        let flags = [format!("--fold-interval={fold_interval}")];
        let server = Process::start(BINARY, &data, &flags.each_ref().map(String::as_str));
        for n in 0..12 {
            let name = format!("lock-{life}-{n}");
            let lease = server.client.acquire(&name, "a", 3_600_000, json!({"metadata": n})).await;
            tokens.insert(name, lease.number("fencing_token"));
        }
        server.kill();
    }
    copy_store(&data, folder.path());
    Killed { folder, tokens }
}

/// Checks that every acknowledged lease is still held.
async fn check_all_there(client: &Client, killed: &Killed, what: &str) {
    for (name, token) in &killed.tokens {
        let lock = client.get(&format!("/v1/locks/{name}")).await;
        let holder = &lock.get("holders")[0];
        assert_eq!(holder["fencing_token"].as_u64(), Some(*token), "{what}: {name}: {lock:?}");
    }
}

/// Checks that nothing is held, and that no token is granted twice.
async fn check_recovered(client: &Client, killed: &Killed, what: &str) {
    for (name, token) in &killed.tokens {
        let granted = client.acquire(name, "b", 60_000, json!({})).await;
        assert_eq!(granted.status, 200, "{what}: {name}: {granted:?}");
        assert!(granted.number("fencing_token") > *token, "{what}: {name}: {granted:?}");
    }
}

/// `DAMAGE_SEED` repeats a run. `DAMAGE_CASES` makes it longer.
#[tokio::test]
async fn verify_and_serve_judge_any_damage_alike_and_recover_leads_on() {
    let mut damages = Damages::new(40);
    let killed = [killed(&["1h"]).await, killed(&["5ms"]).await, killed(&["5ms", "1h"]).await];
    let mut n_refused = 0;
    for case in 0..damages.n_cases {
        let killed = &killed[damages.below(killed.len() as u64) as usize];
        let folder = folder();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        copy_store(killed.folder.path(), &data);
        let harm = damages.one(&data);
        let what = format!("seed {}, case {case}: {harm}", damages.seed);
        let verdict = leasehold(&["verify"], &data);
        match Process::try_start(BINARY, &data, &["--fold-interval=1h"]) {
            Ok(server) => {
                assert!(verdict.status.success(), "{what}: it starts, but {}", text(&verdict));
                check_all_there(&server.client, killed, &what).await;
            }
            Err(said) => {
                n_refused += 1;
                assert!(!verdict.status.success(), "{what}: sound by verify, but {said}");
                let recovered = leasehold(&["recover", "--accept-loss", "--json"], &data);
                assert!(recovered.status.success(), "{what}: {}", text(&recovered));
                let told: Value = serde_json::from_slice(&recovered.stdout).expect("JSON");
                assert_eq!(told["recovered"], true, "{what}: {told}");
                assert!(leasehold(&["verify"], &data).status.success(), "{what}: recovered");
                let server = Process::start(BINARY, &data, &[]);
                check_recovered(&server.client, killed, &what).await;
            }
        }
    }
    println!("{n_refused} of {} refused, and recovered", damages.n_cases);
}
