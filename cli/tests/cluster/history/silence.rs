//! Waits at a leader that hangs, and at a leader that etcd does not answer.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use leasehold_testkit::{Client, Method, Signal, json};

use super::cluster::{Cluster, N_SERVERS};

/// Longer than the test takes.
const TTL_MS: u64 = 3_600_000;
/// Time limit for a command that waits at a leader that hangs. It notices after about 42 seconds.
const MOVES_MAX: Duration = Duration::from_secs(420);
/// Time limit for the error of a wait at a leader that etcd does not answer. It comes after about 3 seconds.
const TOLD_MAX: Duration = Duration::from_secs(60);

/// Starts a command whose first URL is that of the server `first`.
fn command(cluster: &Cluster, first: usize, words: &[&str]) -> Child {
    let url = |n: usize| {
        let server = cluster.servers[(first + n) % N_SERVERS].as_ref().expect("a server");
        format!("http://{}", server.address)
    };
    let urls: Vec<_> = (0..N_SERVERS).map(url).collect();
    let mut command = Command::new(&cluster.binary);
    command.args(words).env("LEASEHOLD_URL", urls.join(",")).stdin(Stdio::null());
    command.spawn().expect("the binary")
}

async fn is_waiting(client: &Client, lock: &str) {
    let began = Instant::now();
    while client.get(&format!("/v1/locks/{lock}")).await.get("n_waiting").as_u64() != Some(1) {
        assert!(began.elapsed() < MOVES_MAX, "{lock}: it does not wait");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn commands_that_wait_at_a_leader_that_hangs_get_the_lock_from_the_next_one() {
    let cluster = Cluster::start(1, Vec::new());
    let (leader, _) = cluster.leader(None).await;
    let client = |n: usize| cluster.servers[n].as_ref().expect("a server").client.clone();
    let commands: [(&str, &[&str]); 2] =
        [("r", &["run", "r", "true"]), ("a", &["acquire", "a", "--wait", "1h", "--ttl", "1h"])];
    let mut waiting = Vec::new();
    for (lock, words) in commands {
        let held = client(leader).acquire(lock, "holder", TTL_MS, json!({})).await;
        assert_eq!(held.status, 200, "{held:?}");
        waiting.push((lock, held, command(&cluster, leader, words)));
        is_waiting(&client(leader), lock).await;
    }
    cluster.servers[leader].as_ref().expect("a server").signal(Signal::STOP);
    let (next, _) = cluster.leader(Some(leader)).await;
    for (lock, held, _) in &waiting {
        let released = client(next).release(held, json!({})).await;
        assert_eq!(released.status, 200, "{lock}: {released:?}");
    }
    let began = Instant::now();
    for (lock, _, mut waiting) in waiting {
        loop {
            if let Some(status) = waiting.try_wait().expect("a status") {
                println!("{lock}: ended {:?} after another server led", began.elapsed());
                assert!(status.success(), "{lock}: {status}");
                break;
            }
            if began.elapsed() > MOVES_MAX {
                waiting.kill().expect("it runs");
                panic!("{lock}: the lock is free, and it still waits");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn a_read_that_waits_for_a_claim_ends_when_etcd_does_not_answer() {
    let cluster = Cluster::start(1, Vec::new());
    let (leader, _) = cluster.leader(None).await;
    let client = cluster.servers[leader].as_ref().expect("a server").client.clone();
    let mut claim = None;
    for _ in 0..2 {
        let wish = json!({"resource": "r", "timeout": 3600});
        claim = Some(client.post("/v1/claims/", wish).await.expect("an answer"));
    }
    let claim = claim.expect("two claims");
    assert_eq!(claim.status, 202, "{claim:?}");
    let url = claim.text_of("url");
    let id = url.trim_end_matches('/').rsplit('/').next().expect("an id");
    let path = format!("/v1/claims/{id}/?wait=300");
    let waiting = client.clone();
    let waiting = tokio::spawn(async move { waiting.send(Method::GET, &path, None, "").await });
    // The request has to arrive first. If it does not, it is refused, and the test proves nothing.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished());
    cluster.etcd.signal(0, Signal::STOP);
    let began = Instant::now();
    let told = tokio::time::timeout(TOLD_MAX, waiting).await;
    let took = began.elapsed();
    cluster.etcd.signal(0, Signal::CONT);
    let told = told.expect("it is told").expect("no panic").expect("an answer");
    println!("the wait ended after {took:?}");
    assert_eq!(told.status, 503, "{told:?}");
}
