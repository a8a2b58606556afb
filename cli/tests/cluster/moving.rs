//! Backups of a store in etcd, and migration of stores between a data directory and etcd.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use leasehold_testkit::{Etcd, Method, Process, folder, json};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");
const PATIENCE: Duration = Duration::from_secs(180);

fn leasehold(args: &[&str]) -> (bool, String) {
    leasehold_in(args, &[])
}

fn leasehold_in(args: &[&str], environment: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(BINARY);
    command.env_remove("LEASEHOLD_STORE").env_remove("LEASEHOLD_DATA");
    let output = command.args(args).envs(environment.iter().copied()).output();
    let output = output.expect("the binary");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn does(args: &[&str]) -> String {
    let (worked, said) = leasehold(args);
    assert!(worked, "{args:?}: {said}");
    said
}

fn fails(args: &[&str], words: &str) {
    let (worked, said) = leasehold(args);
    assert!(!worked && said.contains(words), "{args:?}: {said}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Starts a server on the shared store, and returns it once it leads.
async fn leader(data: &Path, store: &str) -> Process {
    let server = Process::start(BINARY, data, &[&format!("--store={store}"), "--node-name=n1"]);
    let began = Instant::now();
    loop {
        let ready = server.client.send(Method::GET, "/readyz", None, "").await;
        if ready.is_ok_and(|ready| ready.status == 200) {
            return server;
        }
        assert!(began.elapsed() < PATIENCE, "it does not lead");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_moves_to_etcd_and_back_with_its_leases() {
    let (etcd, folder) = (Etcd::start(), folder());
    let [first, node, last] = ["first", "node", "last"].map(|name| folder.path().join(name));
    let store = etcd.url("moved");
    let server = Process::start(BINARY, &first, &[]);
    let held = server.client.acquire("held", "a", 600_000, json!({})).await;
    let migrate = ["migrate", "--from", text(&first), "--to", &store];
    fails(&migrate, "is in use");
    assert!(server.terminate().success());

    assert!(does(&migrate).contains("with its leases"));
    let Err(why) = Process::try_start(BINARY, &first, &[]) else { panic!("it is closed") };
    assert!(why.contains("has moved to etcd://"), "{why}");
    assert!(does(&["verify", text(&first)]).contains("has moved to etcd://"));
    fails(&migrate, "is not empty");
    let server = leader(&node, &store).await;
    let renewed = server.client.renew(&held, 600_000, json!({})).await;
    assert_eq!(renewed.status, 200, "leases stay valid: {renewed:?}");
    let other = server.client.acquire("other", "a", 600_000, json!({})).await;
    let back = ["migrate", "--from", &store, "--to", text(&last)];
    fails(&back, "n1 leads");
    assert!(server.terminate().success());

    does(&back);
    assert!(does(&["verify", "--store", &store]).contains("the store has moved to"));
    fails(&back, "has moved elsewhere");
    let server = Process::start(BINARY, &last, &[]);
    for lease in [&held, &other] {
        assert_eq!(server.client.renew(lease, 600_000, json!({})).await.status, 200);
    }
    let next = server.client.acquire("next", "a", 600_000, json!({})).await;
    assert_eq!(next.number("fencing_token"), 1, "nothing was raised");
    assert!(server.terminate().success());
    does(&["verify", text(&last)]);

    // No server leads a migrated store, until an operator confirms that the new store is not in use.
    let closed = Process::start(BINARY, &node, &[&format!("--store={store}"), "--node-name=n1"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let ready = closed.client.send(Method::GET, "/readyz", None, "").await.unwrap();
    assert_eq!(ready.status, 503);
    fails(&["reopen", &store], "--target-unused");
    does(&["reopen", &store, "--target-unused"]);
    assert!(closed.terminate().success());
    let open = leader(&node, &store).await;
    assert_eq!(open.client.renew(&held, 600_000, json!({})).await.status, 200);
    fails(&["reopen", &store, "--target-unused"], "is open");
    assert!(open.terminate().success());
    fails(&["reopen", &store, "--target-unused"], "is not closed");
    does(&["reopen", text(&first), "--target-unused"]);
    fails(&["reopen", text(&first), "--target-unused"], "is not closed");
    let server = Process::start(BINARY, &first, &[]);
    assert_eq!(server.client.renew(&held, 600_000, json!({})).await.status, 200);
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_shared_store_is_restored_into_etcd_or_a_folder() {
    let (etcd, folder) = (Etcd::start(), folder());
    let [node, copy, alone] = ["node", "copy", "alone"].map(|name| folder.path().join(name));
    let store = etcd.url("test");
    does(&["init", "--store", &store]);
    let server = leader(&node, &store).await;
    let held = server.client.acquire("held", "a", 600_000, json!({})).await;
    assert!(does(&["verify", "--store", &store]).contains("1 active"));
    does(&["backup", text(&copy), "--store", &store]);
    fails(&["backup", text(&copy), "--store", &store], "is not empty");
    assert!(does(&["verify", text(&copy)]).contains("(a backup)"));
    fails(&["restore", text(&copy), "--store", &store], "n1 leads");
    assert!(server.terminate().success());
    assert!(
        does(&["restore", text(&copy), "--store", &store])
            .contains(&format!("restored {store} from"))
    );
    does(&["restore", text(&copy), "--data", text(&alone)]);
    for server in [leader(&node, &store).await, Process::start(BINARY, &alone, &[])] {
        assert_eq!(server.client.renew(&held, 1000, json!({})).await.status, 409);
        let again = server.client.acquire("held", "b", 600_000, json!({})).await;
        assert!(again.number("fencing_token") > 1 << 40, "{again:?}");
        assert!(server.terminate().success());
    }
    fails(&["verify", "--store", &etcd.url("nothing")], "there is no store");
    fails(&["verify", text(&copy), "--store", &store], "cannot be used with");
    fails(&["migrate", "--from", text(&alone), "--to", text(&node)], "rename");
    let there = ["migrate", "--from", text(&alone), "--to", &store];
    fails(&there, "/test/ is not empty in etcd");
}

#[test]
fn a_backup_is_not_used_up_by_a_move() {
    let (etcd, folder) = (Etcd::start(), folder());
    let [data, copy, restored] = ["data", "copy", "restored"].map(|name| folder.path().join(name));
    assert!(Process::start(BINARY, &data, &[]).terminate().success());
    does(&["backup", text(&copy), "--data", text(&data)]);
    does(&["restore", text(&copy), "--data", text(&restored)]);
    let store = etcd.url("moved");
    for backup in [&copy, &restored] {
        let instead = format!("leasehold restore {} --store", text(backup));
        fails(&["migrate", "--from", text(backup), "--to", &store], &instead);
        assert!(does(&["verify", text(backup)]).contains("(a backup)"), "it was used up");
    }
    assert_eq!(etcd.ctl(&["get", "--prefix", "--keys-only", "/moved/"]).trim(), "");
    does(&["restore", text(&copy), "--store", &store]);
    does(&["migrate", "--from", text(&data), "--to", &etcd.url("other")]);
}

#[test]
fn the_store_that_the_environment_names_counts_unless_the_command_line_says_otherwise() {
    let (etcd, folder) = (Etcd::start(), folder());
    let [data, copy, other, made] =
        ["data", "copy", "other", "made"].map(|name| folder.path().join(name));
    let store = etcd.url("test");
    does(&["init", "--store", &store]);
    assert!(Process::start(BINARY, &data, &[]).terminate().success());
    let around = [("LEASEHOLD_STORE", store.as_str()), ("LEASEHOLD_DATA", text(&data))];
    let asked = |args: &[&str]| leasehold_in(args, &around);
    let says = |args: &[&str], words: &str| {
        let (worked, said) = asked(args);
        assert!(worked && said.contains(words), "{args:?}: {said}");
    };
    says(&["backup", text(&copy)], &format!("is a copy of {store}"));
    says(&["verify"], &format!("{store} is intact"));
    says(&["restore", text(&copy)], &format!("restored {store} from"));
    says(
        &["backup", text(&other), "--data", text(&data)],
        &format!("is a copy of {}", text(&data)),
    );
    says(&["verify", text(&other)], "(a backup)");
    says(&["restore", text(&other), "--data", text(&made)], &format!("restored {}", text(&made)));
    // A backup through --url ignores these variables.
    let (worked, said) = asked(&["backup", "--url", "http://127.0.0.1:1"]);
    assert!(!worked && said.contains("cannot connect"), "{said}");

    let wrong = [("LEASEHOLD_STORE", "e1:2379")];
    let (worked, said) = leasehold_in(&["verify"], &wrong);
    assert!(!worked && said.contains("LEASEHOLD_STORE: must be etcd://"), "{said}");
    fails(&["verify"], "--store (LEASEHOLD_STORE)");
    fails(
        &["backup", text(&copy), "--store", &store, "--data", text(&data)],
        "cannot be used with",
    );
    let alone = [("LEASEHOLD_DATA", text(&data))];
    let (worked, said) = leasehold_in(&["backup", text(&folder.path().join("last"))], &alone);
    assert!(worked && said.contains(&format!("is a copy of {}", text(&data))), "{said}");
}
