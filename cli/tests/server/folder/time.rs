//! Time namespaces: in a container, the time since boot can differ from that of the machine.

use leasehold_testkit::{Process, folder, json, wrapped};

use crate::folder::{BINARY, unshare};

const HOUR_MS: u64 = 3_600_000;

/// Acquires a lock in one namespace, restarts the server in another, and returns the time left of the lease.
async fn left_ms(first: Option<&str>, second: Option<&str>) -> u64 {
    let folder = folder();
    let data = folder.path().join("data");
    let binary = |offset: Option<&str>| match offset {
        None => BINARY.into(),
        Some(offset) => {
            let before = format!("exec {} --boottime {offset}", unshare("--time"));
            wrapped(folder.path(), &before, BINARY)
        }
    };
    let server = Process::start(&binary(first), &data, &[]);
    let held = server.client.acquire("db", "a", HOUR_MS / 2, json!({})).await;
    assert_eq!(held.status, 200, "{held:?}");
    server.kill();
    let server = Process::start(&binary(second), &data, &[]);
    let state = server.client.get("/v1/locks/db").await;
    assert_eq!(state.get("held"), true, "{first:?}, then {second:?}: {state:?}");
    let left = state.get("holders")[0]["expires_in_ms"].as_u64().expect("a number");
    assert!(left < HOUR_MS / 2, "no time has passed: {left}");
    left
}

#[tokio::test]
async fn a_lease_lasts_as_long_as_it_should_in_whatever_time_namespace_the_next_start_is() {
    for (first, second) in [(None, Some("3600")), (Some("3600"), None), (Some("1"), Some("7200"))] {
        let left = left_ms(first, second).await;
        assert!(left > HOUR_MS / 2 - 120_000, "{first:?}, then {second:?}: {left} ms left");
    }
}
