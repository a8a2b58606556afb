//! Waiters get a lock in the order of their requests, whatever happens to the leader in between.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::{Client, Error};
use leasehold_testkit::{Host, Method, Value, among_hosts, json};
use tokio::task::JoinHandle;

use super::World;
use super::cluster::{Cluster, N_SERVERS, QUOTA, number};
use super::fault::Fault;

const N_MEMBERS: usize = 1;
const NAME: &str =
    concat!(module_path!(), "::those_who_wait_keep_their_order_whatever_happens_to_the_leader");
/// `FIFO_ROUNDS=20` applies every fault that many times.
const ROUNDS: &str = "FIFO_ROUNDS";
const N_WAITERS: usize = 6;
/// Longer than the test takes.
const TTL: Duration = Duration::from_secs(1800);
/// How long the servers keep a position in the queue. It is long because a busy machine is slow.
const KEEP_PLACES: &str = "--resume-park-max=10m";
/// Time limit for all clients to be in the queue again.
const BACK_WITHIN: Duration = Duration::from_secs(300);
const LIMIT: Duration = Duration::from_secs(600);

const FAULTS: [Fault; 9] = [
    Fault::LeaderKilled,
    Fault::LeaderStopped,
    Fault::LeaderCutFromEtcd,
    Fault::LeaderNotHeardByEtcd,
    Fault::EtcdNotHeardByLeader,
    Fault::LeaderUnreachable,
    Fault::LeaderStepsDown,
    // These last until all clients wait at the new leader.
    Fault::LeaderCutOff,
    Fault::LeaderHangs,
];

#[test]
fn those_who_wait_keep_their_order_whatever_happens_to_the_leader() {
    among_hosts(N_MEMBERS + N_SERVERS, NAME, inside);
}

#[tokio::main(worker_threads = 2)]
async fn inside(hosts: Vec<Host>) {
    let mut cluster = Cluster::start_with(N_MEMBERS, hosts, QUOTA, &[KEEP_PLACES]);
    cluster.leader(None).await;
    for n in 0..number(ROUNDS).unwrap_or(1) {
        for fault in FAULTS {
            let round = a_round(&mut cluster, fault, format!("{fault:?}-{n}"));
            tokio::time::timeout(LIMIT, round).await.expect("it comes to an end");
        }
    }
}

/// Queues clients, two thirds of them through followers, applies the fault, releases the lock, and checks the order of
/// the grants.
async fn a_round(cluster: &mut Cluster, fault: Fault, lock: String) {
    let (leader, _) = cluster.leader(None).await;
    let others: Vec<_> = (0..N_SERVERS).filter(|n| *n != leader).collect();
    for follower in &others {
        cluster.which_is("/readyz", &[*follower]).await;
    }
    let holder = client_for(cluster, leader, "holder", fault);
    let guard = holder.lock(&lock).ttl(TTL).acquire().await.expect("it is free");
    let order = Arc::<Mutex<Vec<usize>>>::default();
    let mut waiters = Vec::new();
    for n in 0..N_WAITERS {
        // Either through all servers, starting with the leader, or through one follower alone.
        let client = match n % 3 {
            0 => client_for(cluster, leader, &format!("w{n}"), fault),
            _ => lone_client(cluster, others[n % others.len()], &format!("w{n}")),
        };
        waiters.push(wait(client, lock.clone(), n, order.clone()));
        all_wait(cluster, &lock, n + 1).await;
    }
    let began = Instant::now();
    fault.befall(cluster, &World::new(cluster.clients())).await;
    all_wait(cluster, &lock, N_WAITERS).await;
    let took = began.elapsed();
    guard.release().await.expect("it is held");
    for waiter in waiters {
        waiter.await.expect("no panic").expect("granted in the end");
    }
    fault.mend(cluster, leader);
    let order = order.lock().expect("no panic").clone();
    println!("{lock}: all wait again after {took:?}, and got it in the order {order:?}");
    assert_eq!(order, (0..N_WAITERS).collect::<Vec<_>>(), "{lock}");
}

fn url(cluster: &Cluster, n: usize) -> String {
    format!("http://{}", cluster.servers[n].as_ref().expect("a server").address)
}

/// Returns a client that knows all servers and tries this one first. A server that hangs sends nothing, so the client
/// itself has to leave it.
fn client_for(cluster: &Cluster, first: usize, owner: &str, fault: Fault) -> Client {
    match fault {
        Fault::LeaderHangs => {
            Client::builder(&urls(cluster, first)).owner(owner).build().expect("good URLs")
        }
        _ => client(cluster, first, owner),
    }
}

/// Returns a client that knows all servers and tries this one first.
fn client(cluster: &Cluster, first: usize, owner: &str) -> Client {
    patient(&urls(cluster, first), owner)
}

/// Returns the URLs of all servers, beginning with this one.
fn urls(cluster: &Cluster, first: usize) -> String {
    let urls: Vec<_> = (0..N_SERVERS).map(|n| url(cluster, (first + n) % N_SERVERS)).collect();
    urls.join(",")
}

/// Returns a client that knows only this server, which has to forward the requests.
fn lone_client(cluster: &Cluster, n: usize, owner: &str) -> Client {
    patient(&url(cluster, n), owner)
}

/// Returns a client that does not leave a server that is silent: the servers have to end its wait or move it.
fn patient(urls: &str, owner: &str) -> Client {
    Client::builder(urls).owner(owner).timeout(BACK_WITHIN).build().expect("good URLs")
}

fn wait(
    client: Client,
    lock: String,
    n: usize,
    order: Arc<Mutex<Vec<usize>>>,
) -> JoinHandle<Result<(), Error>> {
    tokio::spawn(async move {
        let guard = client.lock(&lock).ttl(TTL).wait(LIMIT).acquire().await?;
        order.lock().expect("no panic").push(n);
        guard.release().await
    })
}

/// Waits until `n` clients with a live connection are in the queue of the lock.
async fn all_wait(cluster: &Cluster, lock: &str, n: usize) {
    let began = Instant::now();
    let mut seen = json!({});
    while began.elapsed() < BACK_WITHIN {
        for client in cluster.clients() {
            let path = format!("/v1/locks/{lock}");
            let asked = client.send(Method::GET, &path, None, "");
            let asked = tokio::time::timeout(Duration::from_secs(2), asked).await;
            let Ok(Ok(answer)) = asked else { continue };
            if answer.status == 200 && n_connected(answer.get("queue")) == n {
                return;
            }
            seen = json!({"status": answer.status, "queue": answer.get("queue")});
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{lock}: {n} do not wait within {BACK_WITHIN:?}: {seen}");
}

fn n_connected(queue: &Value) -> usize {
    let waiters = queue.as_array().map_or(&[][..], Vec::as_slice);
    waiters.iter().filter(|waiter| waiter["parked"] == json!(false)).count()
}
