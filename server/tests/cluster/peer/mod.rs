//! Tests of clusters: followers forward requests to the leader.

#![allow(clippy::print_stdout, reason = "how long it takes is worth seeing")]

mod content;
mod hop;
mod mutants;
mod page;
mod past;
mod redis;
mod role;
mod turn;
mod unreached;
mod world;

use std::time::Duration;

use leasehold_testkit::{Method, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use world::World;

/// `Err` explains what went wrong.
type Outcome = Result<(), String>;

/// Returns an error with the actual value if the condition does not hold.
fn holds(is_so: bool, was: &dyn std::fmt::Debug) -> Outcome {
    if is_so { Ok(()) } else { Err(format!("{was:?}")) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_to_a_follower_are_answered_by_the_leader() {
    let world = World::new().await;
    let (leader, follower) = world.pair().await;
    let taken = follower.client.acquire("db", "a", 60_000, json!({})).await;
    assert_eq!((taken.status, taken.number("fencing_token")), (200, 1), "{taken:?}");
    assert!(taken.headers.get("leasehold-grant").is_none(), "that is between servers");
    let again = leader.client.acquire("db", "b", 60_000, json!({})).await;
    assert_eq!((again.status, again.text_of("current_owner_id")), (409, "a".into()));
    assert_eq!(follower.client.renew(&taken, 60_000, json!({})).await.status, 200);
    let seen = follower.client.get("/v1/locks/db").await;
    assert_eq!((seen.text_of("owner_id"), seen.number("last_token")), ("a".into(), 1));
    // Errors look the same through a follower.
    let wrong = follower.client.post("/v1/locks/db/acquire", json!({"owner_id": 7})).await;
    assert_eq!(wrong.expect("an answer").status, 400);
    assert_eq!(follower.client.get("/nowhere").await.status, 404);
    let named = follower.client.send_with(Method::GET, "/v1/locks", &[("x-request-id", "r7")], "");
    let named = named.await.expect("an answer");
    assert_eq!(named.headers.get("x-request-id").expect("it comes back"), "r7");
    assert_eq!(follower.client.release(&taken, json!({})).await.status, 200);
    assert_eq!(leader.client.acquire("db", "b", 60_000, json!({})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_waits_pass_through_and_end_when_their_client_hangs_up() {
    let world = World::new().await;
    let (leader, follower) = world.pair().await;
    let held = leader.client.acquire("db", "a", 60_000, json!({})).await;
    let waiting = {
        let client = follower.client.clone();
        tokio::spawn(
            async move { client.acquire("db", "b", 60_000, json!({"wait_ms": 600_000})).await },
        )
    };
    leader.until_waiting("db", 1).await;
    // Another client waits as well, and disconnects.
    let body = json!({"owner_id": "c", "ttl_ms": 60_000, "wait_ms": 600_000}).to_string();
    let mut gone = TcpStream::connect(follower.address).await.expect("a connection");
    let head = format!(
        "POST /v1/locks/db/acquire HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    gone.write_all(head.as_bytes()).await.expect("written");
    leader.until_waiting("db", 2).await;
    drop(gone);
    leader.until_waiting("db", 1).await;
    assert_eq!(follower.client.release(&held, json!({})).await.status, 200);
    let granted = waiting.await.expect("no panic");
    assert_eq!((granted.status, granted.number("fencing_token")), (200, 2), "{granted:?}");
    // A wait that times out gets the usual response.
    let late = follower.client.acquire("db", "d", 60_000, json!({"wait_ms": 200})).await;
    assert_eq!((late.status, late.text_of("reason")), (409, "WAIT_TIMEOUT".into()), "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_waits_pass_through_than_one_connection_of_a_client_may_have() {
    let world = World::new().await;
    let (leader, follower) = world.pair().await;
    let held = leader.client.acquire("db", "a", 600_000, json!({})).await;
    let n_waiting = 300;
    let mut waits = tokio::task::JoinSet::new();
    for n in 0..n_waiting {
        let client = follower.client.clone();
        let more = json!({"wait_ms": 600_000});
        waits.spawn(async move { client.acquire("db", &format!("w{n}"), 60_000, more).await });
    }
    leader.until_waiting("db", n_waiting).await;
    // The waits do not delay other requests.
    let quick = tokio::time::timeout(
        Duration::from_secs(120),
        follower.client.acquire("other", "x", 60_000, json!({})),
    );
    assert_eq!(quick.await.expect("in time").status, 200);
    assert_eq!(follower.client.release(&held, json!({})).await.status, 200);
    let first = waits.join_next().await.expect("one of them").expect("no panic");
    assert_eq!(first.status, 200, "{first:?}");
    waits.abort_all();
    while waits.join_next().await.is_some() {}
    leader.until_waiting("db", 0).await;
}
