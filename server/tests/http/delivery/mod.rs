//! Tests with a complete server and real sockets that a grant belongs to its client once the operating system has
//! accepted the last byte of the response, and that otherwise the grant is released.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they found"
)]

mod door;
mod mutants;
mod socket;
mod together;
mod way;

use std::time::Duration;

use leasehold_testkit::{Local, Value, json};

/// Test timeout, longer than a busy machine needs. The servers' clocks stand still, so no lease expires on its own.
const PATIENCE: Duration = Duration::from_secs(180);
const TTL_MS: u64 = 60_000;
/// Maximum time to wait for a number to stop growing.
const STILL_MAX: Duration = Duration::from_secs(180);
/// A number has stopped growing once this many reads in a row returned the same value.
const N_SAME: usize = 10;

/// `Err` explains what went wrong.
type Outcome = Result<(), String>;

fn wanted(owner: &str, wait_ms: u64) -> Value {
    json!({"owner_id": owner, "ttl_ms": TTL_MS, "wait_ms": wait_ms})
}

async fn is_held(local: &Local, lock: &str) -> bool {
    local.client.get(&format!("/v1/locks/{lock}")).await.get("held") == true
}

/// Waits until the condition holds. Returns an error with `what` if it never does.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) -> Outcome {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.map_err(|_| format!("never happened: {what}"))
}

/// Waits until a number has stopped growing. On a busy machine, a number can pause before it grows again.
async fn until_still(what: &str, mut number: impl AsyncFnMut() -> u64) -> Outcome {
    let waiting = async {
        let (mut n_before, mut n_same) = (0, 0);
        while n_same < N_SAME {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let n = number().await;
            n_same = if n > 0 && n == n_before { n_same + 1 } else { 0 };
            n_before = n;
        }
    };
    let waited = tokio::time::timeout(STILL_MAX, waiting).await;
    waited.map_err(|_| format!("never happened: {what}"))
}

/// Waits until the server's only connection is the one that reads its metrics.
async fn until_alone(local: &Local) -> Outcome {
    let is_alone = async || {
        let metrics = local.client.get("/metrics").await.text;
        metrics.lines().any(|line| line == "leasehold_connections 1")
    };
    until("all other clients are gone", is_alone).await
}
