//! Tests of more connections than there are connection slots.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold_server::serve::Settings;
use leasehold_testkit::{Local, Response, json, settings};
use tokio::net::{TcpSocket, TcpStream};

use crate::front::{PATIENCE, Raw, post, until_waiting, wait};

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
const LIST: &str = "GET /v1/locks HTTP/1.1\r\nHost: a\r\n\r\n";

fn with_places(n: usize) -> Settings {
    let mut settings = settings(None);
    settings.http.connections_max = n;
    settings
}

fn proof(held: &Response, more: &[(&str, u64)]) -> leasehold_testkit::Value {
    let mut proof = json!({
        "owner_id": held.get("owner_id"),
        "lease_id": held.get("lease_id"),
        "fencing_token": held.get("fencing_token"),
    });
    for (name, value) in more {
        proof[*name] = (*value).into();
    }
    proof
}

async fn ask(address: SocketAddr, request: &str) -> String {
    crate::front::ask(address, request).await
}

fn check(answer: &str, status: u16) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
}

fn check_no_place(answer: &str) {
    check(answer, 503);
    let lower = answer.to_ascii_lowercase();
    assert!(lower.contains("retry-after: 1") && lower.contains("connection: close"), "{answer}");
    assert!(answer.contains("OVERLOADED") && answer.contains("connections-max"), "{answer}");
}

/// Returns how many requests or connections were refused because of this setting.
async fn refusals(local: &Local, setting: &str) -> usize {
    let text = local.client.get("/metrics").await.text;
    let begin = format!("leasehold_limit_refusals_total{{limit=\"{setting}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&*begin));
    line.map_or(0, |line| line.parse().unwrap())
}

/// Waits until all connection slots are in use by clients that do not give them up.
async fn until_full(address: SocketAddr) {
    for _ in 0..24_000 {
        let answer = ask(address, LIST).await;
        if answer.starts_with("HTTP/1.1 503 ") {
            check_no_place(&answer);
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("there was always a place");
}

#[tokio::test]
async fn waiters_on_every_place_do_not_lock_out_the_holder_or_a_health_check() {
    let local = Local::start(with_places(20)).await;
    let held = local.client.acquire("db", "holder", 60_000, json!({})).await;
    let mut waiters = Vec::new();
    for n in 0..20 {
        let mut raw = Raw::connect(local.address).await;
        raw.send(wait("db", &format!("waiter-{n}"))).await;
        waiters.push(raw);
        // One after the other: a connection that does not wait yet could lose its slot to the next one.
        until_waiting(&local, "db", n + 1).await;
    }
    // The 20 waiters use all slots. The test client's own idle connection was closed to free one.
    let renew = post("/v1/locks/db/renew", &proof(&held, &[("extend_by_ms", 90_000)]));
    until_full(local.address).await;
    check(&ask(local.address, &renew).await, 200);
    check(&ask(local.address, HEALTH).await, 200);
    check_no_place(&ask(local.address, &wait("db", "one-more")).await);
    let release = post("/v1/locks/db/release", &proof(&held, &[]));
    check(&ask(local.address, &release).await, 200);
    check(&waiters[0].answer().await, 200);
}

#[tokio::test]
async fn a_reserved_place_serves_no_stream_and_no_acquire() {
    let local = Local::start(with_places(1)).await;
    // Without a body, because the server closes a connection with an unread body.
    let lock = |client: &str| {
        format!(
            "POST /lock?client={client}&ttl=60s HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
        )
    };
    let acquire = json!({"owner_id": "holder", "ttl_ms": 60_000});
    // All on one connection: a second one could arrive before the only slot is free again.
    let mut waiter = Raw::connect(local.address).await;
    for request in [lock("holder"), post("/v1/locks/db/acquire", &acquire)] {
        waiter.send(request).await;
        check(&waiter.answer().await, 200);
    }
    waiter.send(wait("db", "waiter")).await;
    until_waiting(&local, "db", 1).await;
    until_full(local.address).await;
    for target in ["/v1/events?lock=release", "/console/live?lock=release", "/f?lock=status"] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        check_no_place(&ask(local.address, &request).await);
    }
    check_no_place(&ask(local.address, &lock("other")).await);
    check(&ask(local.address, &lock("holder")).await, 200);
}

#[tokio::test]
async fn an_idle_connection_gives_its_place_up_first() {
    let local = Local::start(with_places(3)).await;
    let mut idle = Vec::new();
    for _ in 0..3 {
        let mut raw = Raw::connect(local.address).await;
        raw.send(LIST).await;
        check(&raw.answer().await, 200);
        idle.push(raw);
    }
    let mut newcomer = Raw::connect(local.address).await;
    newcomer.send(LIST).await;
    check(&newcomer.answer().await, 200);
    assert_eq!(idle.remove(0).rest().await, "", "the one that was idle for the longest");
    newcomer.send(LIST).await;
    check(&newcomer.answer().await, 200);
    for mut raw in idle {
        raw.send(LIST).await;
        check(&raw.answer().await, 200);
    }
}

/// Without this, a few clients that check health again and again could keep all reserved places.
#[tokio::test]
async fn a_reserved_place_is_given_up_after_one_response() {
    let mut settings = with_places(1);
    // The place is not given up because of this limit.
    settings.http.restricted_timeout = 10 * PATIENCE;
    let local = Local::start(settings).await;
    let acquire = json!({"owner_id": "holder", "ttl_ms": 60_000});
    let mut waiter = Raw::connect(local.address).await;
    waiter.send(post("/v1/locks/db/acquire", &acquire)).await;
    check(&waiter.answer().await, 200);
    waiter.send(wait("db", "waiter")).await;
    until_waiting(&local, "db", 1).await;
    until_full(local.address).await;
    for _ in 0..3 {
        let mut pinger = Raw::connect(local.address).await;
        pinger.send(HEALTH).await;
        let answer = pinger.rest().await;
        check(&answer, 200);
        assert!(answer.to_ascii_lowercase().contains("connection: close"), "{answer}");
    }
    let io = TokioIo::new(TcpStream::connect(local.address).await.unwrap());
    let (mut sender, connection) =
        http2::handshake::<_, _, Empty<Bytes>>(TokioExecutor::new(), io).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = hyper::Request::get(format!("http://{}/healthz", local.address));
    let answer = sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
    drop(answer);
    connection.await.unwrap().expect("the server ends it");
}

#[tokio::test]
async fn a_restricted_connection_has_little_time() {
    let mut settings = with_places(1);
    settings.http.restricted_timeout = Duration::from_secs(1);
    let local = Local::start(settings).await;
    let acquire = json!({"owner_id": "holder", "ttl_ms": 60_000});
    let mut waiter = Raw::connect(local.address).await;
    waiter.send(post("/v1/locks/db/acquire", &acquire)).await;
    check(&waiter.answer().await, 200);
    waiter.send(wait("db", "waiter")).await;
    until_waiting(&local, "db", 1).await;
    until_full(local.address).await;
    let mut silent = Raw::connect(local.address).await;
    assert_eq!(silent.rest().await, "");
    let mut slow = Raw::connect(local.address).await;
    slow.send("POST /v1/locks/db/renew HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{").await;
    assert_eq!(slow.rest().await, "");
}

#[tokio::test]
async fn an_upload_that_only_drips_gives_its_place_up() {
    let mut settings = with_places(1);
    settings.http.header_timeout = Duration::from_secs(1);
    let local = Local::start(settings).await;
    // On the same connection: a second one could arrive before the only slot is free again.
    let mut dripping = Raw::connect(local.address).await;
    dripping.send(post("/auth/session", &json!({}))).await;
    let opened = dripping.answer().await;
    let session = opened.split("\"sessionId\":\"").nth(1).unwrap().split('"').next().unwrap();
    let head = "PUT /file HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\nAuthorization: Bearer ";
    dripping.send(format!("{head}{session}\r\n\r\nx")).await;
    let mut has_place = false;
    for _ in 0..6000 {
        has_place = ask(local.address, LIST).await.starts_with("HTTP/1.1 200 ");
        if has_place {
            break;
        }
        dripping.send("x").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(has_place, "dripping kept the place");
}

#[tokio::test]
async fn one_address_gets_so_many_places_and_leaves_the_others_theirs() {
    let mut settings = settings(None);
    settings.http.connections_per_peer_max = 2;
    settings.http.connections_per_peer_exempt = [].into();
    settings.http.connections_reserved = 40;
    let local = Local::start(settings).await;
    let mut first = Vec::new();
    for _ in 0..2 {
        let mut raw = Raw::connect(local.address).await;
        raw.send(LIST).await;
        check(&raw.answer().await, 200);
        first.push(raw);
    }
    check_no_place(&ask(local.address, LIST).await);
    check(&ask(local.address, HEALTH).await, 200);
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = Raw(socket.connect(local.address).await.unwrap());
    other.send(LIST).await;
    check(&other.answer().await, 200);
    drop(first.pop());
    local
        .until("there is a place again", async |_| {
            ask(local.address, LIST).await.starts_with("HTTP/1.1 200 ")
        })
        .await;
}

#[tokio::test]
async fn loopback_and_trusted_proxies_may_have_as_many_as_they_like() {
    let mut exempt = settings(None);
    exempt.http.connections_per_peer_max = 0;
    let mut proxied = settings(None);
    proxied.http.connections_per_peer_max = 0;
    proxied.http.connections_per_peer_exempt = [].into();
    proxied.http.trusted_proxies = ["127.0.0.0/8".parse().unwrap()].into();
    for settings in [exempt, proxied] {
        let local = Local::start(settings).await;
        check(&ask(local.address, LIST).await, 200);
    }
}

#[tokio::test]
async fn http2_requests_are_limited_in_total() {
    use http_body_util::{BodyExt, Full};
    use hyper::body::Bytes;
    let mut settings = settings(None);
    settings.http.streams_max = 2;
    let local = Local::start(settings).await;
    let held = local.client.acquire("db", "holder", 60_000, json!({})).await;
    let stream = tokio::net::TcpStream::connect(local.address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    let send = |path: &str, body: leasehold_testkit::Value| {
        let request = hyper::Request::post(format!("http://{}{path}", local.address))
            .body(Full::<Bytes>::from(body.to_string()))
            .unwrap();
        let mut sender = sender.clone();
        async move {
            let response = sender.send_request(request).await.unwrap();
            let status = response.status().as_u16();
            (status, response.into_body().collect().await.unwrap().to_bytes())
        }
    };
    let waits = json!({"owner_id": "w", "ttl_ms": 60_000, "wait_ms": 60_000});
    let waiting: Vec<_> =
        (0..2).map(|_| tokio::spawn(send("/v1/locks/db/acquire", waits.clone()))).collect();
    until_waiting(&local, "db", 2).await;
    assert_eq!(send("/v1/locks/db/acquire", waits).await.0, 503);
    assert_eq!(refusals(&local, "streams-max").await, 1);
    let renewal = proof(&held, &[("extend_by_ms", 90_000)]);
    assert_eq!(send("/v1/locks/db/renew", renewal).await.0, 200);
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    until_waiting(&local, "db", 0).await;
    let (status, _) = send("/v1/locks/db/acquire", json!({"owner_id": "w", "ttl_ms": 1000})).await;
    assert_eq!(status, 409, "there is room again");
}

/// A request that is refused, and after which the server reads for up to 5 seconds.
const MALFORMED: &str = "nonsense\r\n\r\n";

/// Each of these clients used to keep the only reserved slot for two seconds.
#[tokio::test]
async fn refused_clients_that_do_not_close_keep_no_slot_of_the_reserve() {
    let mut settings = with_places(1);
    settings.http.connections_reserved = 1;
    settings.http.restricted_timeout = PATIENCE;
    let local = Local::start(settings).await;
    let acquire = json!({"owner_id": "holder", "ttl_ms": 60_000});
    let mut waiter = Raw::connect(local.address).await;
    waiter.send(post("/v1/locks/db/acquire", &acquire)).await;
    check(&waiter.answer().await, 200);
    waiter.send(wait("db", "waiter")).await;
    until_waiting(&local, "db", 1).await;
    let refused = async {
        let mut lingering = Vec::new();
        for _ in 0..20 {
            let mut raw = Raw::connect(local.address).await;
            raw.send(MALFORMED).await;
            check(&raw.answer().await, 400);
            lingering.push(raw);
        }
        check(&ask(local.address, HEALTH).await, 200);
        lingering
    };
    let refused = tokio::time::timeout(Duration::from_secs(20), refused).await;
    let refused = refused.expect("a slot was kept");
    drop(refused);
    drop(waiter);
    until_waiting(&local, "db", 0).await;
    let is_over = async |_: &leasehold_testkit::Client| {
        local.client.get("/metrics").await.text.contains("leasehold_lingering 0\n")
    };
    local.until("none lingers", is_over).await;
}

#[tokio::test]
async fn only_so_many_connections_linger() {
    let mut settings = settings(None);
    settings.http.lingering_max = 0;
    let local = Local::start(settings).await;
    let mut raw = Raw::connect(local.address).await;
    raw.send(MALFORMED).await;
    check(&raw.answer().await, 400);
    let is_counted =
        async |_: &leasehold_testkit::Client| refusals(&local, "lingering-max").await == 1;
    local.until("it is counted", is_counted).await;
}

#[tokio::test]
async fn refusals_for_lack_of_a_place_are_counted_by_setting() {
    let all = with_places(1);
    let mut of_peer = settings(None);
    of_peer.http.connections_per_peer_max = 2;
    of_peer.http.connections_per_peer_exempt = [].into();
    for (settings, setting) in [(all, "connections-max"), (of_peer, "connections-per-peer-max")] {
        let local = Local::start(settings).await;
        // All on one connection: a second one could arrive before the only slot is free again.
        let acquire = json!({"owner_id": "holder", "ttl_ms": 60_000});
        let mut waiter = Raw::connect(local.address).await;
        waiter.send(post("/v1/locks/db/acquire", &acquire)).await;
        check(&waiter.answer().await, 200);
        waiter.send(wait("db", "waiter")).await;
        until_waiting(&local, "db", 1).await;
        until_full(local.address).await;
        drop(waiter);
        until_waiting(&local, "db", 0).await;
        let is_counted = async |_: &leasehold_testkit::Client| refusals(&local, setting).await > 0;
        local.until("it is counted", is_counted).await;
    }
}
