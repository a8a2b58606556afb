//! A grant is its client's once the system has taken the answer's last byte, and nobody's before: with the whole server
//! and real sockets.

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

/// Longer than anything here takes, however busy the machine is. The servers' clocks stand still, so no lease ends by
/// itself.
const PATIENCE: Duration = Duration::from_secs(20);
const TTL_MS: u64 = 60_000;
/// How long a number may take until it no longer grows.
const STILL_MAX: Duration = Duration::from_secs(180);
/// A number that was the same so many times in a row no longer grows.
const N_SAME: usize = 5;

/// What went wrong, if anything did.
type Outcome = Result<(), String>;

fn wanted(owner: &str, wait_ms: u64) -> Value {
    json!({"owner_id": owner, "ttl_ms": TTL_MS, "wait_ms": wait_ms})
}

async fn is_held(local: &Local, lock: &str) -> bool {
    local.client.get(&format!("/v1/locks/{lock}")).await.get("held") == true
}

/// Waits until it is so; an error names what never was.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) -> Outcome {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.map_err(|_| format!("never happened: {what}"))
}

/// Waits until a number no longer grows. On a busy machine it can stand still for a moment.
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

/// Waits until the server has no connection but the one that asks.
async fn until_alone(local: &Local) -> Outcome {
    let is_alone = async || {
        let metrics = local.client.get("/metrics").await.text;
        metrics.lines().any(|line| line == "leasehold_connections 1")
    };
    until("everybody else is gone", is_alone).await
}
