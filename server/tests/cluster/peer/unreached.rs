//! Tests that a leader that other servers cannot reach hands over leadership.

use std::path::Path;
use std::time::{Duration, Instant};

use leasehold_server::serve::Settings;
use leasehold_testkit::json;

use crate::peer::world::{Node, World};

const PATIENCE: Duration = Duration::from_secs(180);
/// An address that no host has (RFC 5737).
const NOWHERE: &str = "http://192.0.2.1:8080";

/// Returns settings for a server with this name and this peer secret.
fn with_secret(world: &World, name: &str, folder: &Path, secret: &str) -> Settings {
    let file = folder.join(name);
    std::fs::write(&file, secret).expect("a file");
    let mut settings = world.settings(name, name);
    let cluster = settings.cluster.as_mut().expect("it is shared");
    cluster.peer_listen = Some("0.0.0.0:0".parse().expect("an address"));
    cluster.peer_secret_file = Some(file);
    settings
}

/// Waits until one of these servers leads, and returns it.
async fn one_leads<'n>(nodes: &[&'n Node]) -> &'n Node {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        for node in nodes {
            if node.client.get("/leaderz").await.status == 200 {
                return node;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("none leads in time");
}

async fn metric(node: &Node, line: &str) -> bool {
    let text = node.client.get("/metrics").await.text;
    text.lines().any(|found| found.replace("{}", "") == line)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_no_other_server_can_reach_hands_over() {
    let (world, folder) = (World::new().await, leasehold_testkit::folder());
    let settings = |name: &str| with_secret(&world, name, folder.path(), "a-secret-of-all-three");
    let mut lonely = settings("n1");
    lonely.cluster.as_mut().expect("it is shared").advertise = Some(NOWHERE.into());
    let first = world.start(lonely).await.expect("a start");
    first.until("/leaderz", 200).await;
    let held = first.client.acquire("db", "a", 600_000, json!({})).await;
    let second = world.start(settings("n2")).await.expect("a start");
    let began = Instant::now();
    let third = world.start(settings("n3")).await.expect("a start");
    one_leads(&[&second, &third]).await;
    println!("another leads after {:?}", began.elapsed());
    let seen = second.client.get("/v1/locks/db").await;
    assert_eq!(seen.get("last_token"), held.get("fencing_token"), "{seen:?}");
    // As a follower, the server reaches the new leader.
    let handed_over = "leasehold_cluster_changes_total{change=\"handed_over\"} 1";
    while !metric(&first, handed_over).await {
        assert!(began.elapsed() < PATIENCE, "the server counts no handover");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    first.until("/readyz", 200).await;
    assert_eq!(first.client.release(&held, json!({})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_with_another_peer_secret_hands_over_and_one_that_follows_is_ignored() {
    let (world, folder) = (World::new().await, leasehold_testkit::folder());
    let settings = |name: &str, secret| with_secret(&world, name, folder.path(), secret);
    let wrong = world.start(settings("n1", "another-secret-than-theirs")).await.expect("a start");
    wrong.until("/leaderz", 200).await;
    let second = world.start(settings("n2", "a-secret-of-the-others")).await.expect("a start");
    until_reported(&world, "n2", "wrong_secret").await;
    assert_eq!(world.value("node/n2")["unreached"]["leader"], json!("n1"));
    let third = world.start(settings("n3", "a-secret-of-the-others")).await.expect("a start");
    let leader = one_leads(&[&second, &third]).await;
    leader.until("/readyz", 200).await;
    // `n1` cannot reach the new leader either, but most of the others can.
    let began = Instant::now();
    while !metric(leader, "leasehold_cluster_unreached_by 1").await {
        assert!(began.elapsed() < PATIENCE, "n1 does not report anything");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(7)).await;
    for node in [&second, &third] {
        assert!(!metric(node, "leasehold_cluster_changes_total{change=\"handed_over\"} 1").await);
    }
}

/// The address of a stopped server can belong to another server by now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_lead_is_not_taken_for_the_leader() {
    let (world, folder) = (World::new().await, leasehold_testkit::folder());
    let settings = |name: &str| with_secret(&world, name, folder.path(), "a-secret-of-both");
    let first = world.start(settings("n1")).await.expect("a start");
    first.until("/leaderz", 200).await;
    let second = world.start(settings("n2")).await.expect("a start");
    second.until("/readyz", 200).await;
    let there = world.value("node/n2")["peer"].clone();
    let leader = json!({"nonce": "0", "node": "n9", "address": "http://n9", "version": "1",
        "peer": there, "peer_key": ""});
    world.etcd.ctl(&["put", "/test/leader", &leader.to_string()]);
    until_reported(&world, "n1", "another_server").await;
    assert_eq!(world.value("node/n1")["unreached"]["leader"], json!("n9"));
}

/// Waits until this server reports that it cannot reach the leader, for this reason.
async fn until_reported(world: &World, node: &str, why: &str) {
    let (began, key) = (Instant::now(), format!("node/{node}"));
    while world.value(&key)["unreached"]["why"] != why {
        assert!(began.elapsed() < PATIENCE, "{}", world.value(&key));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
