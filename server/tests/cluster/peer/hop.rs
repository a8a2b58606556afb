//! Tests of forwarded requests between servers, from one server's point of view. The test plays the other server.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold_auth::NewKey;
use leasehold_testkit::{Client, Method, Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::peer::world::{Node, PATIENCE, World};
use crate::peer::{Outcome, holds};

/// A follower played by the test, with a connection to the leader.
struct Peer {
    sender: SendRequest<Full<Bytes>>,
    key: String,
    n_sent: u64,
}

const HOP: &str = r#"{"from":"192.0.2.7"}"#;

impl Peer {
    async fn of(world: &World) -> Self {
        let leader = world.value("leader");
        let text = |name: &str| leader[name].as_str().expect("a text").to_owned();
        let stream = TcpStream::connect(text("peer")).await.expect("a connection");
        let (sender, connection) =
            handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
        tokio::spawn(connection);
        Self { sender, key: text("peer_key"), n_sent: 0 }
    }

    async fn ask(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: Value,
    ) -> (Response<()>, Value) {
        self.n_sent += 1;
        let mut request = Request::builder().method(Method::POST).uri(format!("http://x{path}"));
        request = request.header("leasehold-hop-id", self.n_sent);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = request.body(Full::new(Bytes::from(body))).expect("a request");
        let (head, body) = self.sender.send_request(request).await.expect("an answer").into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        (Response::from_parts(head, ()), body)
    }

    /// Forwards a client's request, with the headers that a follower sends.
    async fn pass(&mut self, path: &str, held_ms: &str, body: Value) -> (Response<()>, Value) {
        let key = self.key.clone();
        let headers =
            [("leasehold-peer-key", &*key), ("leasehold-hop", HOP), ("leasehold-held-ms", held_ms)];
        self.ask(path, &headers, body).await
    }

    async fn tell(&mut self, path: &str) -> u16 {
        let key = self.key.clone();
        let (head, _) = self.ask(path, &[("leasehold-peer-key", &*key)], Value::Null).await;
        head.status().as_u16()
    }
}

fn acquire(owner: &str, wait_ms: u64) -> Value {
    json!({"owner_id": owner, "ttl_ms": 60_000, "wait_ms": wait_ms})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_server_of_a_cluster_says_which_leases_outlast_a_leader_change() {
    let world = World::new().await;
    let (leader, follower) = world.pair().await;
    for client in [&leader.client, &follower.client] {
        let granted = client.acquire("db", "a", 60_000, json!({})).await;
        assert_eq!(granted.status, 200, "{granted:?}");
        assert_eq!(granted.headers["leasehold-failover-ms"], "10000");
        let released = client.release(&granted, json!({})).await;
        assert_eq!(released.status, 200, "{released:?}");
        let seen = client.get("/v1/locks/db").await;
        assert!(!seen.headers.contains_key("leasehold-failover-ms"), "only what changes: {seen:?}");
    }
    let alone = leasehold_testkit::Local::ephemeral().await;
    let granted = alone.client.acquire("db", "a", 60_000, json!({})).await;
    assert!(!granted.headers.contains_key("leasehold-failover-ms"), "a single server: {granted:?}");
    alone.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undelivered_grant_is_released() {
    let world = World::new().await;
    let (leader, _follower) = world.pair().await;
    let mut peer = Peer::of(&world).await;
    let (head, taken) = peer.pass("/v1/locks/db/acquire", "0", acquire("a", 0)).await;
    assert_eq!((head.status().as_u16(), &taken["acquired"]), (200, &json!(true)));
    let passed = peer.n_sent;
    assert!(head.headers().contains_key("leasehold-grant"), "{head:?}");
    assert_eq!(peer.tell(&format!("/gone/{}", passed + 1_000)).await, 204);
    let held = leader.client.acquire("db", "b", 60_000, json!({})).await;
    assert_eq!(held.status, 409, "{held:?}");
    assert_eq!(peer.tell(&format!("/gone/{passed}")).await, 204);
    let free = leader.client.acquire("db", "b", 60_000, json!({"wait_ms": 5_000})).await;
    assert_eq!(free.status, 200, "{free:?}");
    // A response that grants nothing new has no grant header.
    let (head, _) = peer.pass("/v1/locks/none/renew", "0", json!({})).await;
    assert!(head.headers().get("leasehold-grant").is_none());
    assert_eq!(peer.tell("/nothing").await, 404);
}

/// The connection broke before the response arrived. The follower reports this later on a new connection, and the
/// leader releases the grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_lost_between_servers_is_released() {
    let world = World::new().await;
    let (leader, _follower) = world.pair().await;
    let mut peer = Peer::of(&world).await;
    peer.n_sent = 1000;
    let (_, taken) = peer.pass("/v1/locks/db/acquire", "0", acquire("a", 0)).await;
    assert_eq!(taken["acquired"], json!(true));
    drop(peer);
    let mut again = Peer::of(&world).await;
    assert_eq!(again.tell("/gone/1000").await, 204, "of another request");
    let held = leader.client.acquire("db", "b", 60_000, json!({})).await;
    assert_eq!(held.status, 409, "{held:?}");
    assert_eq!(again.tell("/gone/1001").await, 204);
    let free = leader.client.acquire("db", "b", 60_000, json!({"wait_ms": 5_000})).await;
    assert_eq!(free.status, 200, "{free:?}");

    // The client got the lock by repeating its request directly. The lease stays.
    let wish = json!({"owner_id": "a", "ttl_ms": 60_000, "request_id": "r"});
    let (_, taken) = again.pass("/v1/locks/two/acquire", "0", wish.clone()).await;
    let told = leader.client.post("/v1/locks/two/acquire", wish).await.expect("an answer");
    assert_eq!(told.get("lease_id"), &taken["lease_id"], "{told:?}");
    let passed = again.n_sent;
    assert_eq!(again.tell(&format!("/gone/{passed}")).await, 204);
    let held = leader.client.acquire("two", "b", 60_000, json!({"wait_ms": 300})).await;
    assert_eq!(held.status, 409, "{held:?}");
}

/// Forwards an acquire that waits for this lock. Its request id lets other connections repeat it.
fn waits(mut peer: Peer, lock: &str) -> JoinHandle<(Peer, Response<()>)> {
    let path = format!("/v1/locks/{lock}/acquire");
    let wish = json!({"owner_id": "b", "ttl_ms": 60_000, "wait_ms": 60_000, "request_id": "r"});
    tokio::spawn(async move {
        let (head, _) = peer.pass(&path, "0", wish).await;
        (peer, head)
    })
}

/// The same request waits through two followers and is granted. If one follower reports the response as undelivered,
/// the lease must stay, because the client might have got it through the other.
pub(crate) async fn told_through_two_servers() -> Outcome {
    let world = World::new().await;
    let (leader, _follower) = world.pair().await;
    for n in 1..=40 {
        let lock = format!("db-{n}");
        let held = leader.client.acquire(&lock, "a", 60_000, json!({})).await;
        let [mut one, mut two] = [Peer::of(&world).await, Peer::of(&world).await];
        (one.n_sent, two.n_sent) = (n * 100, n * 100 + 50);
        let one = waits(one, &lock);
        leader.until_waiting(&lock, 1).await;
        let two = waits(two, &lock);
        tokio::time::sleep(Duration::from_millis(n * 50)).await;
        assert_eq!(leader.client.release(&held, json!({})).await.status, 200);
        let (mut one, _) = one.await.expect("no panic");
        let (mut two, head) = two.await.expect("no panic");
        if !head.headers().contains_key("leasehold-grant") {
            // The second request came after the grant, so it only repeated the first response.
            continue;
        }
        let (first, second) = (one.n_sent, two.n_sent);
        for _ in 0..2 {
            assert_eq!(one.tell(&format!("/gone/{first}")).await, 204);
            let other = leader.client.acquire(&lock, "c", 60_000, json!({})).await;
            holds(other.status == 409, &other)?;
        }
        assert_eq!(two.tell(&format!("/gone/{second}")).await, 204);
        let free = leader.client.acquire(&lock, "c", 60_000, json!({"wait_ms": 60_000})).await;
        return holds(free.status == 200, &free);
    }
    panic!("the second never waited in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_server_gives_up_is_kept_if_the_client_may_have_it_through_another() {
    told_through_two_servers().await.expect("it is kept");
}

/// The client left a follower and now waits at the leader directly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_gives_up_is_kept_if_the_client_was_told_here() {
    let world = World::new().await;
    let (leader, _follower) = world.pair().await;
    for n in 1..=40 {
        let lock = format!("db-{n}");
        let held = leader.client.acquire(&lock, "a", 60_000, json!({})).await;
        let (client, path) = (leader.client.clone(), format!("/v1/locks/{lock}/acquire"));
        let wish = json!({"owner_id": "b", "ttl_ms": 60_000, "wait_ms": 60_000, "request_id": "r"});
        let here = tokio::spawn(async move { client.post(&path, wish).await });
        leader.until_waiting(&lock, 1).await;
        let mut peer = Peer::of(&world).await;
        peer.n_sent = n * 100;
        let there = waits(peer, &lock);
        tokio::time::sleep(Duration::from_millis(n * 50)).await;
        assert_eq!(leader.client.release(&held, json!({})).await.status, 200);
        let told = here.await.expect("no panic").expect("an answer");
        assert_eq!(told.status, 200, "{told:?}");
        let (mut peer, head) = there.await.expect("no panic");
        if !head.headers().contains_key("leasehold-grant") {
            continue;
        }
        let passed = peer.n_sent;
        assert_eq!(peer.tell(&format!("/gone/{passed}")).await, 204);
        let other = leader.client.acquire(&lock, "c", 60_000, json!({})).await;
        assert_eq!(other.status, 409, "{other:?}");
        assert_eq!(leader.client.release(&told, json!({})).await.status, 200, "its client has it");
        return;
    }
    panic!("the passed request never waited in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_servers_are_believed_what_servers_say() {
    let world = World::new().await;
    let (leader, _follower) = world.pair().await;
    let mut peer = Peer::of(&world).await;
    for key in ["", "wrong"] {
        let headers = [("leasehold-peer-key", key), ("leasehold-hop", HOP)];
        let (head, said) = peer.ask("/v1/locks/db/acquire", &headers, acquire("a", 0)).await;
        assert_eq!((head.status().as_u16(), &said["code"]), (403, &json!("FORBIDDEN")));
        let (head, _) = peer.ask("/gone/1", &[("leasehold-peer-key", key)], Value::Null).await;
        assert_eq!(head.status().as_u16(), 403);
    }
    // On the client listener, the headers of a follower are ignored.
    let held = leader.client.acquire("db", "a", 60_000, json!({})).await;
    let key = peer.key.clone();
    let began = Instant::now();
    let headers = [
        ("leasehold-peer-key", key.as_str()),
        ("leasehold-hop", HOP),
        ("leasehold-held-ms", "60000"),
        ("content-type", "application/json"),
    ];
    let body = acquire("b", 700).to_string();
    let waited = leader.client.send_with(Method::POST, "/v1/locks/db/acquire", &headers, body);
    assert_eq!(waited.await.expect("an answer").status, 409);
    assert!(began.elapsed() >= Duration::from_millis(650), "{:?}", began.elapsed());
    assert_eq!(leader.client.release(&held, json!({})).await.status, 200);
}

/// A follower forwards a request that it has held for a while.
pub(crate) async fn held_for_a_while() -> Outcome {
    let world = World::new().await;
    let (leader, _follower) = world.pair().await;
    let mut peer = Peer::of(&world).await;
    // The held time counts: `expires_after_send_ms` is longer by it. A new leader ignores the time before it took over,
    // so this may need some tries.
    let began = Instant::now();
    for n in 0.. {
        let path = format!("/v1/locks/other-{n}/acquire");
        let (_, taken) = peer.pass(&path, "500", acquire("b", 0)).await;
        let of = |name: &str| taken[name].as_u64().unwrap_or_default();
        let held = of("expires_after_send_ms").saturating_sub(of("expires_in_ms"));
        if (400..=1_500).contains(&held) {
            break;
        }
        holds(began.elapsed() < Duration::from_secs(60), &taken)?;
    }
    assert_eq!(leader.client.acquire("db", "a", 60_000, json!({})).await.status, 200);
    let began = Instant::now();
    let (head, said) = peer.pass("/v1/locks/db/acquire", "9500", acquire("b", 10_000)).await;
    assert_eq!((head.status().as_u16(), &said["reason"]), (409, &json!("WAIT_TIMEOUT")), "{said}");
    let took = began.elapsed();
    holds(took >= Duration::from_millis(400) && took < Duration::from_secs(8), &took)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_was_held_waits_so_much_less_and_came_so_much_earlier() {
    held_for_a_while().await.expect("it counts");
}

/// Starts a fake leader that accepts requests and closes the connections. Returns its address and the number of
/// requests it got.
async fn silent_leader(world: &World) -> (SocketAddr, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let taking = tokio::spawn(async move {
        let (came, mut requests) = tokio::sync::mpsc::unbounded_channel();
        let mut readings = tokio::task::JoinSet::new();
        let accepting = async {
            while let Ok((mut stream, _)) = listener.accept().await {
                let came = came.clone();
                // The follower also connects every second to check whether the leader is reachable.
                readings.spawn(async move {
                    let (mut bytes, mut all) = (vec![0; 65_536], Vec::new());
                    while let Ok(n @ 1..) = stream.read(&mut bytes).await {
                        all.extend_from_slice(&bytes[..n]);
                        if all.windows(7).any(|window| window == b"never-2") {
                            let _ = came.send(());
                            break;
                        }
                    }
                });
            }
        };
        let counting = async {
            let mut n_requests = 0;
            // After the first request: longer than a follower holds a request. A repeated request would arrive within
            // this time.
            let mut window = PATIENCE;
            while let Ok(Some(())) = tokio::time::timeout(window, requests.recv()).await {
                n_requests += 1;
                window = Duration::from_secs(10);
            }
            n_requests
        };
        tokio::select! {
            () = accepting => 0,
            n_requests = counting => n_requests,
        }
    });
    let leader = json!({"nonce": "0", "node": "n9", "address": "http://n9", "version": "1",
        "peer": address.to_string(), "peer_key": "k"});
    world.etcd.ctl(&["put", "/test/leader", &leader.to_string()]);
    (address, taking)
}

/// The leader's response is lost.
pub(crate) async fn lost_on_the_way() -> Outcome {
    let world = World::new().await;
    let (leader, follower) = world.pair().await;
    leader.server.stop().await.expect("a good end");
    follower.until("/leaderz", 200).await;
    let (_, taking) = silent_leader(&world).await;
    follower.until("/leaderz", 503).await;
    let lost = follower.client.acquire("db", "never-2", 60_000, json!({})).await;
    holds((lost.status, lost.text_of("code")) == (503, "UNKNOWN".into()), &lost)?;
    holds(lost.get("may_have_taken_effect") == &json!(true), &lost)?;
    let looked = follower.client.get("/v1/locks/db").await;
    holds((looked.status, looked.text_of("code")) == (503, "BUSY".into()), &looked)?;
    let n_requests = taking.await.expect("no panic");
    holds(n_requests == 1, &n_requests)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_lost_is_told_as_unknown_and_nothing_is_sent_twice() {
    lost_on_the_way().await.expect("it is told so");
}

/// Writes an auth file in which only `key:ci` has a right. Returns its path and the key.
fn policy(folder: &std::path::Path) -> (std::path::PathBuf, String) {
    let NewKey { id, text, sha256 } = NewKey::draw();
    let keys = folder.join("keys.toml");
    let entry = format!("[[key]]\nid = \"{id}\"\nname = \"ci\"\nsha256 = \"{sha256}\"\n");
    std::fs::write(&keys, entry).expect("a file");
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).expect("rights");
    let file = folder.join("auth.toml");
    std::fs::write(
        &file,
        r#"
version = 1
key-files = ["keys.toml"]

[[rule]]
name = "ci"
who = ["key:ci"]
may = ["acquire"]
namespaces = ["default"]
"#,
    )
    .expect("a file");
    (file, text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identity_rules_and_audit_hold_at_the_leader_for_clients_of_a_follower() {
    let world = World::new().await;
    let files = leasehold_testkit::folder();
    let (auth, key) = policy(files.path());
    let settings = |name: &str| {
        let mut settings = world.settings(name, name);
        settings.auth_file = Some(auth.clone());
        let file = files.path().join(format!("{name}.audit"));
        settings.audit = Some(leasehold_server::audit::Options::new(file));
        settings
    };
    let leader = world.start(settings("n1")).await.expect("a start");
    leader.until("/leaderz", 200).await;
    let follower = world.start(settings("n2")).await.expect("a start");
    follower.until("/readyz", 200).await;
    let ask = |node: &Node, lock: &str, key: &str| {
        let (client, path): (Client, _) =
            (node.client.clone(), format!("/v1/locks/{lock}/acquire"));
        let bearer = format!("Bearer {key}");
        async move {
            let headers = [("authorization", &*bearer), ("content-type", "application/json")];
            let body = acquire("a", 0).to_string();
            client.send_with(Method::POST, &path, &headers, body).await.expect("an answer")
        }
    };
    assert_eq!(ask(&follower, "db", &key).await.status, 200);
    assert_eq!(ask(&follower, "db", "nonsense").await.status, 401);
    let anonymous = follower.client.acquire("db", "b", 60_000, json!({})).await;
    assert_eq!(anonymous.status, 401, "{anonymous:?}");
    // Calls that every server answers itself need a right too.
    assert_eq!(follower.client.get("/v1/events").await.status, 401);
    assert_eq!(follower.client.get("/v1/history").await.status, 401);
    let of_leader = std::fs::read_to_string(files.path().join("n1.audit")).expect("an audit file");
    let granted = of_leader.lines().find(|line| line.contains("granted")).expect("it is told");
    assert!(granted.contains("key:ci") && granted.contains("127.0.0.1"), "{granted}");
    // The audit file names the address of the client, not of the forwarding server.
    let mut peer = Peer::of(&world).await;
    let bearer = format!("Bearer {key}");
    let shown = peer.key.clone();
    let headers =
        [("leasehold-peer-key", &*shown), ("leasehold-hop", HOP), ("authorization", &*bearer)];
    let (head, _) = peer.ask("/v1/locks/far/acquire", &headers, acquire("a", 0)).await;
    assert_eq!(head.status().as_u16(), 200);
    let of_leader = std::fs::read_to_string(files.path().join("n1.audit")).expect("an audit file");
    assert!(of_leader.lines().any(|line| line.contains("192.0.2.7")), "{of_leader}");
}
