//! etcd is rolled back to a snapshot while some servers know the newer state and one does not.

use std::time::{Duration, Instant};

use leasehold_testkit::{Client, Method, Process, Signal, Value, json};

use super::cluster::Cluster;

const TTL_MS: u64 = 600_000;
const PATIENCE: Duration = Duration::from_secs(180);
/// Longer than a server needs to become leader if it is allowed to.
const A_WHILE: Duration = Duration::from_secs(4);

/// Acquires a free lock. Returns the token if this server itself grants it.
async fn token(client: &Client, lock: &str) -> Option<u64> {
    let body = json!({"owner_id": "a", "ttl_ms": TTL_MS}).to_string();
    let path = format!("/v1/locks/{lock}/acquire");
    let headers = [("content-type", "application/json"), ("leasehold-direct", "1")];
    let asked = client.send_with(Method::POST, &path, &headers, body);
    let asked = tokio::time::timeout(Duration::from_secs(8), asked).await.ok()?.ok()?;
    (asked.status == 200).then(|| asked.number("fencing_token"))
}

async fn leads(client: &Client) -> bool {
    let asked = client.send(Method::GET, "/leaderz", None, "");
    let asked = tokio::time::timeout(Duration::from_secs(1), asked).await;
    asked.is_ok_and(|asked| asked.is_ok_and(|answer| answer.status == 200))
}

/// Acquires and releases a lock this many times, and returns its highest token.
async fn work(cluster: &Cluster, n: u64) -> u64 {
    let (leader, _) = cluster.leader(None).await;
    let client = cluster.servers[leader].as_ref().expect("it leads").client.clone();
    let mut highest = 0;
    for _ in 0..n {
        let granted = client.acquire("db", "a", TTL_MS, json!({})).await;
        highest = granted.number("fencing_token");
        assert_eq!(client.release(&granted, json!({})).await.status, 200);
    }
    highest
}

fn status(cluster: &Cluster) -> Value {
    serde_json::from_str(&cluster.operate(&["cluster", "status", "--json"])).expect("JSON")
}

/// Waits until every server has noted in its folder that the journal goes as far as it does now. A server does so once
/// a second.
async fn until_noted(cluster: &Cluster) {
    let began = Instant::now();
    let head = status(cluster)["head"].as_u64().expect("a number");
    for n in 0..cluster.servers.len() {
        let file = cluster.path(&format!("n{n}")).join("node.json");
        let noted = || -> Option<u64> {
            let text = std::fs::read_to_string(&file).ok()?;
            serde_json::from_str::<Value>(&text).ok()?["seq"].as_u64()
        };
        while noted() < Some(head) {
            assert!(began.elapsed() < PATIENCE, "n{n} noted {:?} of {head}", noted());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Waits until etcd has no leader key.
async fn no_seat_is_taken(cluster: &Cluster) {
    let began = Instant::now();
    let leader = || cluster.etcd.ctl(&["get", "--keys-only", "/test/leader"]);
    while !leader().trim().is_empty() {
        assert!(began.elapsed() < PATIENCE, "{}", status(cluster));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_that_was_put_back_under_a_live_leader_grants_no_token_twice() {
    let mut cluster = Cluster::start(1, Vec::new());
    let early = work(&cluster, 3).await;
    let saved = cluster.path("saved");
    cluster.etcd.ctl(&["snapshot", "save", saved.to_str().expect("text")]);
    let late = work(&cluster, 20).await;
    assert!(late > early);
    let (zombie, _) = cluster.leader(None).await;
    let others: Vec<_> = (0..cluster.servers.len()).filter(|n| *n != zombie).collect();
    // The leader is suspended in the meantime. When it continues, etcd has the revisions that it knows, with other
    // values.
    let sleeper = cluster.servers[zombie].as_ref().expect("it leads");
    sleeper.signal(Signal::STOP);
    cluster.etcd.put_back(&saved);
    cluster.servers[zombie].as_ref().expect("it sleeps").signal(Signal::CONT);
    let began = Instant::now();
    while status(&cluster)["rewound"] != true {
        for client in cluster.clients() {
            assert_eq!(token(&client, "db").await, None, "it may have been granted before");
        }
        assert!(began.elapsed() < PATIENCE, "no server has noticed: {}", status(&cluster));
    }
    println!("it was noticed after {:?}", began.elapsed());

    // A server with an empty data directory does not lead this store either.
    cluster.servers[others[0]].take().expect("a server").kill();
    std::fs::remove_dir_all(cluster.path(&format!("n{}", others[0]))).expect("its folder");
    cluster.servers[others[0]] = Some(cluster.serve(others[0]));
    let began = Instant::now();
    while began.elapsed() < A_WHILE {
        for client in cluster.clients() {
            assert!(!leads(&client).await, "it leads what was put back");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    // The recovery, as the manual describes it.
    let left = cluster.path("what-is-left");
    let left = left.to_str().expect("text");
    cluster.operate(&["backup", left]);
    cluster.operate(&["restore", left]);
    let after = work(&cluster, 1).await;
    assert!(after > late, "{after} was granted before: {late}");
}

/// No server that knows the newer state is running; the only running server has an empty data directory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fresh_server_does_not_lead_what_was_put_back_while_all_others_were_gone() {
    let mut cluster = Cluster::start(1, Vec::new());
    work(&cluster, 1).await;
    let saved = cluster.path("saved");
    cluster.etcd.ctl(&["snapshot", "save", saved.to_str().expect("text")]);
    let late = work(&cluster, 5).await;
    until_noted(&cluster).await;
    for server in &mut cluster.servers {
        server.take().expect("a server").kill();
    }
    cluster.etcd.put_back(&saved);
    std::fs::remove_dir_all(cluster.path("n0")).expect("its folder");
    let fresh: Process = cluster.serve(0);
    let began = Instant::now();
    while began.elapsed() < A_WHILE {
        assert!(!leads(&fresh.client).await, "it cannot know that nothing is missing");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(token(&fresh.client, "db").await, None);
    // A server that knows the newer state reports that the store was rolled back.
    let flag = format!("--store={}", cluster.etcd.url("test"));
    let known = cluster.path("n1");
    let why = Process::try_start(super::BINARY, &known, &[&flag, "--node-name=n1"]).err();
    let why = why.expect("it knows better");
    assert!(why.contains("was rolled back or replaced"), "{why}");
    assert_eq!(status(&cluster)["rewound"], true);
    drop(fresh);
    let left = cluster.path("what-is-left");
    let left = left.to_str().expect("text");
    cluster.operate(&["backup", left]);
    cluster.operate(&["restore", left]);
    cluster.servers[0] = Some(cluster.serve(0));
    let after = work(&cluster, 1).await;
    assert!(after > late, "{after} was granted before: {late}");
}

/// A restore raised all tokens after the snapshot. etcd has lost that restore, but the servers remember it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_that_was_put_back_to_before_a_restore_grants_no_token_twice() {
    let mut cluster = Cluster::start(1, Vec::new());
    work(&cluster, 3).await;
    let (old, saved) = (cluster.path("old"), cluster.path("saved"));
    let old = old.to_str().expect("text");
    cluster.operate(&["backup", old]);
    cluster.etcd.ctl(&["snapshot", "save", saved.to_str().expect("text")]);
    cluster.operate(&["cluster", "pause"]);
    cluster.operate(&["cluster", "step-down"]);
    no_seat_is_taken(&cluster).await;
    cluster.operate(&["restore", old]);
    cluster.operate(&["cluster", "resume"]);
    let late = work(&cluster, 3).await;
    until_noted(&cluster).await;
    cluster.etcd.put_back(&saved);
    let began = Instant::now();
    while status(&cluster)["rewound"] != true {
        for client in cluster.clients() {
            assert_eq!(token(&client, "db").await, None, "it may have been granted before");
        }
        assert!(began.elapsed() < PATIENCE, "no server has noticed: {}", status(&cluster));
    }
    // The rollback also brought a leader key back, which has to expire first.
    no_seat_is_taken(&cluster).await;
    cluster.operate(&["restore", old]);
    let after = work(&cluster, 1).await;
    assert!(after > late, "{after} was granted before: {late}");
}
