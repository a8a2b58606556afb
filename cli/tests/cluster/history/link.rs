//! Clients that wait through a follower while the link between the follower and the leader is silently cut, or that
//! disconnect.

use std::time::{Duration, Instant};

use leasehold_testkit::{Client, Host, Response, among_hosts, json};
use tokio::task::JoinHandle;

use super::cluster::{Cluster, N_SERVERS};

const N_MEMBERS: usize = 1;
const NAME: &str = concat!(module_path!(), "::a_link_that_is_silently_cut_loses_no_lock");
/// Longer than the test takes: a lost grant would keep the lock held until then.
const TTL_MS: u64 = 600_000;
/// Time limit for detecting that a link is cut. A server detects it within 10 seconds; the rest is for a busy machine.
const NOTICED_MAX: Duration = Duration::from_secs(100);
const LIMIT: Duration = Duration::from_secs(600);

#[test]
fn a_link_that_is_silently_cut_loses_no_lock() {
    among_hosts(N_MEMBERS + N_SERVERS, NAME, inside);
}

#[tokio::main(worker_threads = 2)]
async fn inside(hosts: Vec<Host>) {
    let story = async {
        let cluster = Cluster::start(N_MEMBERS, hosts);
        let (leader, _) = cluster.leader(None).await;
        let [deaf, cut] = [1, 2].map(|n| (leader + n) % N_SERVERS);
        for follower in [deaf, cut] {
            cluster.which_is("/readyz", &[follower]).await;
        }
        // One after the other: a leader that neither follower reaches would hand over.
        a_waiter_whose_server_is_cut_off(&cluster, leader, cut).await;
        cluster.which_is("/readyz", &[cut]).await;
        a_grant_that_is_lost_on_its_way(&cluster, leader, deaf).await;
        a_client_that_is_gone(&cluster, leader, cut).await;
    };
    tokio::time::timeout(LIMIT, story).await.expect("it comes to an end");
}

/// Cuts the traffic between the two servers in both directions. The client gets an error, and its waiter leaves the
/// queue.
async fn a_waiter_whose_server_is_cut_off(cluster: &Cluster, leader: usize, follower: usize) {
    let leads = client(cluster, leader);
    let held = leads.acquire("cut", "holder", TTL_MS, json!({})).await;
    let waiting = wait(client(cluster, follower), "cut");
    is_waiting(&leads, "cut", 1).await;
    let hosts = [leader, follower].map(|n| cluster.host_of(n).expect("a host"));
    hosts[0].loses(hosts[1]);
    hosts[1].loses(hosts[0]);
    told_unknown("cut off", waiting).await;
    is_waiting(&leads, "cut", 0).await;
    assert_eq!(leads.release(&held, json!({})).await.status, 200);
    let next = leads.acquire("cut", "next", TTL_MS, json!({})).await;
    assert_eq!(next.status, 200, "the queue is not empty: {next:?}");
    hosts[0].reaches(hosts[1]);
    hosts[1].reaches(hosts[0]);
    assert_eq!(leads.release(&next, json!({})).await.status, 200);
}

/// The leader grants the lock, but its response to the follower is lost. The lock is released once the link works
/// again.
async fn a_grant_that_is_lost_on_its_way(cluster: &Cluster, leader: usize, follower: usize) {
    let leads = client(cluster, leader);
    let held = leads.acquire("lost", "holder", TTL_MS, json!({})).await;
    let waiting = wait(client(cluster, follower), "lost");
    is_waiting(&leads, "lost", 1).await;
    let [host, other] = [leader, follower].map(|n| cluster.host_of(n).expect("a host"));
    host.loses(other);
    assert_eq!(leads.release(&held, json!({})).await.status, 200);
    let next = leads.acquire("lost", "next", TTL_MS, json!({})).await;
    assert_eq!(next.status, 409, "it was granted: {next:?}");
    told_unknown("not heard", waiting).await;
    host.reaches(other);
    let began = Instant::now();
    let wish = json!({"wait_ms": NOTICED_MAX.as_millis() as u64});
    let next = leads.acquire("lost", "next", TTL_MS, wish).await;
    assert_eq!(next.status, 200, "what was lost is held: {next:?}");
    println!("lost grants were released {:?} after the link was restored", began.elapsed());
}

/// Clients that disconnect: one while it waits, and one whose server cannot report that immediately.
async fn a_client_that_is_gone(cluster: &Cluster, leader: usize, follower: usize) {
    let leads = client(cluster, leader);
    cluster.which_is("/readyz", &[follower]).await;
    let held = leads.acquire("gone", "holder", TTL_MS, json!({})).await;
    let waiting = wait(client(cluster, follower), "gone");
    is_waiting(&leads, "gone", 1).await;
    waiting.abort();
    is_waiting(&leads, "gone", 0).await;

    let waiting = wait(client(cluster, follower), "gone");
    is_waiting(&leads, "gone", 1).await;
    let hosts = [leader, follower].map(|n| cluster.host_of(n).expect("a host"));
    hosts[1].loses(hosts[0]);
    waiting.abort();
    assert_eq!(leads.release(&held, json!({})).await.status, 200);
    tokio::time::sleep(Duration::from_secs(1)).await;
    hosts[1].reaches(hosts[0]);
    let wish = json!({"wait_ms": NOTICED_MAX.as_millis() as u64});
    let next = leads.acquire("gone", "next", TTL_MS, wish).await;
    assert_eq!(next.status, 200, "the lock is not free: {next:?}");
}

fn client(cluster: &Cluster, n: usize) -> Client {
    Client::new(cluster.servers[n].as_ref().expect("a server").address)
}

fn wait(client: Client, lock: &'static str) -> JoinHandle<Response> {
    tokio::spawn(
        async move { client.acquire(lock, "waiter", TTL_MS, json!({"wait_ms": TTL_MS})).await },
    )
}

async fn is_waiting(client: &Client, lock: &str, n: u64) {
    let began = Instant::now();
    loop {
        let seen = client.get(&format!("/v1/locks/{lock}")).await;
        if seen.get("n_waiting").as_u64().unwrap_or(0) == n {
            return;
        }
        assert!(began.elapsed() < NOTICED_MAX, "not {n}: {seen:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn told_unknown(what: &str, waiting: JoinHandle<Response>) {
    let began = Instant::now();
    let told =
        tokio::time::timeout(NOTICED_MAX, waiting).await.expect("in time").expect("no panic");
    println!("{what}: the client was told after {:?}", began.elapsed());
    assert_eq!((told.status, told.text_of("code")), (503, "UNKNOWN".into()), "{told:?}");
}
