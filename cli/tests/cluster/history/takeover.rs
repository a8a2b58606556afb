//! A lease while leaders change faster than it expires, and a store that is deleted while its servers run.

use std::time::{Duration, Instant};

use leasehold_testkit::{Client, Method, Response, Value, json};

use super::cluster::Cluster;

const TTL: Duration = Duration::from_secs(10);
/// How much longer than its TTL the lease can last: the time of all fail-overs, and of a missing leader when it ends.
const LONGER_MAX: Duration = Duration::from_secs(120);
/// Twice the time of a fail-over.
const A_WHILE: Duration = Duration::from_secs(6);
const PATIENCE: Duration = Duration::from_secs(180);

/// Sends the request to one server after the other until one responds.
async fn ask(cluster: &Cluster, path: &str, body: &Value) -> Response {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        for client in cluster.clients() {
            if let Some(answer) = ask_once(&client, path, body).await {
                return answer;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no server answered {path} within {PATIENCE:?}");
}

async fn ask_once(client: &Client, path: &str, body: &Value) -> Option<Response> {
    let asked =
        tokio::time::timeout(Duration::from_secs(10), client.post(path, body.clone())).await;
    asked.ok()?.ok().filter(|answer| answer.status < 500)
}

fn wish(owner: &str, ttl: Duration, request: &str) -> Value {
    json!({"owner_id": owner, "ttl_ms": ttl.as_millis() as u64, "request_id": request})
}

/// Kills each leader in turn until a lease ends, which must be neither too early nor too late. Where a
/// fail-over takes too long to kill two leaders during the lease, the test goes on with a longer lease.
async fn check_leases_outlive_leaders(mut cluster: Cluster) {
    let mut ttl = TTL;
    while outlive(&mut cluster, ttl).await < 2 {
        ttl *= 2;
        assert!(ttl < TTL * 10, "too few leaders were killed to prove anything");
    }
}

/// Kills each leader in turn until a lease with this TTL ends. Returns how many it killed.
async fn outlive(cluster: &mut Cluster, ttl: Duration) -> usize {
    cluster.leader(None).await;
    let path = format!("/v1/locks/{}/acquire", ttl.as_secs());
    let asked_at = Instant::now();
    let first = ask(cluster, &path, &wish("first", ttl, "first")).await;
    assert_eq!(first.status, 200, "{first:?}");
    let mut n_killed = 0;
    for n in 0.. {
        let (leader, _) = cluster.leader(None).await;
        let next = ask(cluster, &path, &wish("next", ttl, &format!("r{n}"))).await;
        if next.status == 200 {
            assert!(next.number("fencing_token") > first.number("fencing_token"));
            break;
        }
        assert!(asked_at.elapsed() < ttl + PATIENCE, "it never ended");
        cluster.servers[leader].take().expect("it leads").kill();
        n_killed += 1;
        cluster.servers[leader] = Some(cluster.serve(leader));
    }
    let lasted = asked_at.elapsed();
    println!("{n_killed} leaders killed: a lease of {ttl:?} lasted {lasted:?}");
    assert!(lasted >= ttl, "another client got it after {lasted:?}");
    assert!(lasted <= ttl + LONGER_MAX, "it lasted {lasted:?}");
    n_killed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_lasts_as_long_as_promised_however_many_leaders_are_killed() {
    check_leases_outlive_leaders(Cluster::start(1, Vec::new())).await;
}

/// One server counts its time from another start, so its clock readings mean nothing to the other servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_clock_began_at_another_time_ends_no_lease_early() {
    let mut cluster = Cluster::start(1, Vec::new());
    let words = "exec unshare --time --boottime 86400 --monotonic 86400 --fork --kill-child";
    cluster.serve_within(1, words);
    check_leases_outlive_leaders(cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_do_not_recreate_a_store_that_was_wiped() {
    let cluster = Cluster::start(1, Vec::new());
    cluster.leader(None).await;
    let first = ask(&cluster, "/v1/locks/l/acquire", &wish("first", TTL, "first")).await;
    assert_eq!(first.status, 200, "{first:?}");
    cluster.etcd.ctl(&["del", "--prefix", "/"]);
    cluster.etcd.ctl(&["del", "--prefix", "test"]);
    let (began, mut none_since) = (Instant::now(), None);
    loop {
        let (mut one_leads, mut all_answer) = (false, true);
        for client in cluster.clients() {
            let wish = wish("next", TTL, "next");
            let answer = ask_once(&client, "/v1/locks/other/acquire", &wish).await;
            assert!(answer.is_none(), "a token was granted out of nothing: {answer:?}");
            let leads = client.send(Method::GET, "/leaderz", None, "");
            let leads = tokio::time::timeout(Duration::from_secs(10), leads).await;
            let status = leads.ok().and_then(Result::ok).map(|leads| leads.status);
            one_leads |= status == Some(200);
            all_answer &= status.is_some();
        }
        // Every server detects that its store is gone, and from then on there is no leader.
        match none_since {
            None if !one_leads && all_answer => none_since = Some(Instant::now()),
            None => assert!(began.elapsed() < PATIENCE, "it leads nothing"),
            Some(since) => {
                assert!(!one_leads, "it leads nothing");
                if since.elapsed() > A_WHILE {
                    break;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
