//! Tests of a leader that stops while another server takes over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use leasehold_testkit::{Client, Response, json};

use crate::peer::world::{PATIENCE, World};

/// For at least this long after the stop signal, a server forwards requests.
const SEE_OFF: Duration = Duration::from_secs(1);

/// No request fails because the leader stops: neither at the stopping server, while it is still there, nor at the
/// others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stops_hands_over_and_no_request_is_refused() {
    let world = World::new().await;
    let (leader, follower) = world.pair().await;
    let kept = leader.client.acquire("kept", "a", 60_000, json!({})).await;
    assert_eq!(kept.status, 200);
    let (is_over, n_answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut asking = tokio::task::JoinSet::new();
    for n in 0..4 {
        let (client, is_over) = (follower.client.clone(), is_over.clone());
        let n_answered = n_answered.clone();
        asking.spawn(async move {
            let (mut answers, mut i) = (Vec::<Response>::new(), 0);
            while !is_over.load(SeqCst) {
                i += 1;
                answers.push(client.acquire(&format!("l{n}-{i}"), "a", 60_000, json!({})).await);
                n_answered.fetch_add(1, SeqCst);
            }
            answers
        });
    }
    while n_answered.load(SeqCst) <= 20 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (client, began) = (leader.client.clone(), Instant::now());
    let stopping = tokio::spawn(leader.server.stop());
    follower.until("/leaderz", 200).await;
    let took = began.elapsed();
    println!("handed over within {took:?}");
    // For a moment, the stopping server forwards the requests that still reach it.
    let passed = match client.try_acquire("late", "a", 60_000, json!({})).await {
        Ok(passed) => passed,
        // On a busy machine that moment can already be over.
        Err(_) if began.elapsed() > SEE_OFF => {
            follower.client.acquire("late", "a", 60_000, json!({})).await
        }
        Err(why) => panic!("{why}"),
    };
    assert_eq!(passed.status, 200, "{passed:?}");
    stopping.await.expect("no panic").expect("a good end");
    assert!(began.elapsed() < Duration::from_secs(80), "{:?}", began.elapsed());
    is_over.store(true, SeqCst);
    while let Some(answers) = asking.join_next().await {
        for answer in answers.expect("no panic") {
            // A request in progress during the change can get an error that asks for a retry.
            let is_told = answer.status == 503 && answer.text_of("code") == "SHUTTING_DOWN";
            assert!(answer.status == 200 || is_told, "{answer:?}");
        }
    }
    assert_eq!(follower.client.release(&kept, json!({})).await.status, 200);
    assert_eq!(follower.client.get("/v1/locks/late").await.get("held"), &json!(true));
}

/// To the other servers it looks as if the leader had crashed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_without_a_leader_are_held_until_there_is_one() {
    let world = World::new().await;
    let (leader, follower) = world.pair().await;
    // The leader key is deleted. Either server can become the next leader.
    world.etcd.ctl(&["del", "/test/leader"]);
    let mut is_told = false;
    for n in 0..20 {
        let lock = format!("l{n}");
        for node in [&leader, &follower] {
            let taken = node.client.acquire(&lock, "a", 60_000, json!({"request_id": lock})).await;
            // A request in progress during the change can fail, and others until the change is over.
            let may_fail = n < 3 || is_told;
            is_told = taken.status == 503 && ["BUSY", "UNKNOWN"].contains(&&*taken.text_of("code"));
            assert!(taken.status == 200 || may_fail && is_told, "{n}: {taken:?}");
        }
    }
}

/// Two clients wait through followers. Neither of them notices the leader change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_with_a_request_id_go_on_at_the_next_leader_in_their_order() {
    let world = World::new().await;
    let (leader, second) = world.pair().await;
    let third = world.node("n3").await;
    third.until("/readyz", 200).await;
    let held = leader.client.acquire("db", "holder", 600_000, json!({})).await;
    let waits = |client: &Client, owner: &'static str| {
        let client = client.clone();
        let wish = json!({"wait_ms": 600_000, "request_id": owner});
        tokio::spawn(async move { client.acquire("db", owner, 60_000, wish).await })
    };
    let first_waits = waits(&second.client, "first");
    leader.until_waiting("db", 1).await;
    let next_waits = waits(&third.client, "next");
    leader.until_waiting("db", 2).await;
    leader.server.stop().await.expect("a good end");
    let began = Instant::now();
    loop {
        let seen = second.client.get("/v1/locks/db").await;
        let waiting = seen.get("queue").as_array().cloned().unwrap_or_default();
        if waiting.iter().filter(|waiter| waiter["parked"] == json!(false)).count() == 2 {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{seen:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(second.client.release(&held, json!({})).await.status, 200);
    let first = first_waits.await.expect("no panic");
    assert_eq!(first.status, 200, "{first:?}");
    assert!(!next_waits.is_finished());
    assert_eq!(third.client.release(&first, json!({})).await.status, 200);
    let next = next_waits.await.expect("no panic");
    assert_eq!(next.status, 200, "{next:?}");
}
