//! Tests that every server returns events and history, without a gap after a leader change.

use std::net::SocketAddr;

use leasehold_testkit::{Signal, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::peer::world::{Node, PATIENCE, World};
use crate::peer::{Outcome, holds};

/// An event stream.
struct Stream {
    stream: TcpStream,
    text: String,
}

impl Stream {
    async fn of(node: &Node, query: &str) -> Self {
        Self::at(node.address, query).await
    }

    async fn at(address: SocketAddr, query: &str) -> Self {
        Self::asked(address, &format!("GET /v1/events{query} HTTP/1.1\r\nhost: x\r\n\r\n")).await
    }

    async fn asked(address: SocketAddr, request: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(request.as_bytes()).await.expect("written");
        let mut events = Self { stream, text: String::new() };
        events.until("text/event-stream").await;
        events
    }

    /// Reads until the stream contains `words`.
    async fn until(&mut self, words: &str) {
        let reading = async {
            let mut bytes = [0; 4096];
            while !self.text.contains(words) {
                let n = self.stream.read(&mut bytes).await.expect("a stream");
                assert!(n > 0, "it ended: {}", self.text);
                self.text += &String::from_utf8_lossy(&bytes[..n]);
            }
        };
        let read = tokio::time::timeout(PATIENCE, reading).await;
        assert!(read.is_ok(), "no {words:?} in {}", self.text);
    }

    /// Returns the names of the locks that were granted.
    fn granted(&self) -> Vec<String> {
        let granted = self.text.lines().filter(|line| line.contains("\"granted\""));
        let name =
            |line: &str| Some(line.split("\"lock_name\":\"").nth(1)?.split('"').next()?.to_owned());
        granted.filter_map(name).collect()
    }

    /// Returns the id of the last event.
    fn last_id(&self) -> String {
        let id = self.text.lines().filter_map(|line| line.strip_prefix("id: ")).next_back();
        id.expect("an id").trim().into()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_tells_what_happens_and_goes_on_when_it_leads() {
    let world = World::new().await;
    let (leader, follower) = world.pair().await;
    let (mut there, mut here) = (Stream::of(&leader, "").await, Stream::of(&follower, "").await);
    for lock in ["a", "b"] {
        assert_eq!(follower.client.acquire(lock, "x", 60_000, json!({})).await.status, 200);
    }
    for stream in [&mut there, &mut here] {
        stream.until("\"lock_name\":\"b\"").await;
        assert_eq!(stream.granted(), ["a", "b"]);
    }
    // An event has the same id on every server.
    assert_eq!(there.last_id(), here.last_id());
    let seen = there.last_id();
    leader.server.stop().await.expect("a good end");
    follower.until("/leaderz", 200).await;
    assert_eq!(follower.client.acquire("c", "x", 60_000, json!({})).await.status, 200);
    here.until("\"lock_name\":\"c\"").await;
    assert_eq!(here.granted(), ["a", "b", "c"]);
    assert!(!here.text.contains("event: gap"), "{}", here.text);
    // A reader of the old leader's stream can continue at this server.
    let mut after = Stream::of(&follower, &format!("?since={seen}")).await;
    after.until("\"lock_name\":\"c\"").await;
    assert_eq!(after.granted(), ["c"]);
    assert!(!after.text.contains("event: gap"), "{}", after.text);
    let past = follower.client.get("/v1/history").await;
    let n_past = past.get("events").as_array().map(Vec::len);
    assert_eq!(n_past, Some(3), "{past:?}");
}

/// The streams of isolated servers used to look as if nothing happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_servers_are_cut_off_their_events_are_stale_and_then_go_on_without_a_gap() {
    let world = World::new().await;
    let (leader, follower) = world.pair().await;
    let (mut there, mut here) = (Stream::of(&leader, "").await, Stream::of(&follower, "").await);
    assert_eq!(leader.client.acquire("a", "x", 60_000, json!({})).await.status, 200);
    for stream in [&mut there, &mut here] {
        stream.until("\"lock_name\":\"a\"").await;
        assert!(!stream.text.contains("event: stale"), "{}", stream.text);
    }
    world.etcd.signal(0, Signal::STOP);
    for stream in [&mut there, &mut here] {
        stream.until("event: stale").await;
    }
    let mut late = Stream::of(&follower, "").await;
    late.until("event: stale").await;
    world.etcd.signal(0, Signal::CONT);
    for stream in [&mut there, &mut here, &mut late] {
        stream.until("event: current").await;
    }
    follower.until("/readyz", 200).await;
    while follower.client.acquire("b", "x", 60_000, json!({})).await.status != 200 {}
    for stream in [&mut there, &mut here, &mut late] {
        stream.until("\"lock_name\":\"b\"").await;
        assert!(!stream.text.contains("event: gap"), "{}", stream.text);
    }
    assert_eq!((there.granted(), here.granted()), (vec!["a".into(), "b".into()], there.granted()));
}

/// Otherwise the client would not learn that the next leader revoked its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_ends_the_streams_of_watched_leases() {
    let world = World::new().await;
    let (leader, _follower) = world.pair().await;
    let held = leader.client.acquire("a", "x", 60_000, json!({})).await;
    let proof = json!({
        "owner_id": "x", "lease_id": held.get("lease_id"), "fencing_token": held.get("fencing_token"),
    });
    let (path, body) = ("/v1/locks/a/watch", proof.to_string());
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut watched = Stream::asked(leader.address, &request).await;
    watched.until("event: watching").await;
    assert!(!watched.text.contains("event: stale"), "{}", watched.text);
    world.etcd.signal(0, Signal::STOP);
    watched.until("event: stale").await;
    watched.until("\r\n0\r\n\r\n").await;
    world.etcd.signal(0, Signal::CONT);
}

/// A follower that lags behind must not report a gap for a cursor from a server that has read more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_that_is_ahead_of_a_follower_is_waited_for() {
    let world = World::new().await;
    let (leader, follower) = world.pair().await;
    let mut there = Stream::of(&leader, "").await;
    for n in 0..30 {
        let lock = format!("l{n}");
        assert_eq!(leader.client.acquire(&lock, "x", 60_000, json!({})).await.status, 200);
        there.until(&format!("\"lock_name\":\"{lock}\"")).await;
        // The request comes immediately, so the follower has hardly read that record.
        let since = format!("?since={}", there.last_id());
        let mut here = Stream::of(&follower, &since).await;
        let next = format!("next{n}");
        assert_eq!(leader.client.acquire(&next, "x", 60_000, json!({})).await.status, 200);
        here.until(&format!("\"lock_name\":\"{next}\"")).await;
        assert!(!here.text.contains("event: gap"), "{n}: {}", here.text);
        assert_eq!(here.granted(), [next]);
    }
}

/// A reader that comes from a server that is ahead continues after its cursor.
pub(crate) async fn ahead_of_a_follower() -> Outcome {
    let world = World::new().await;
    let (leader, follower) = world.pair().await;
    let mut there = Stream::of(&leader, "").await;
    assert_eq!(leader.client.acquire("a", "x", 60_000, json!({})).await.status, 200);
    there.until("\"lock_name\":\"a\"").await;
    let id = there.last_id();
    let parts: Vec<_> = id.split('-').collect();
    let seq: u64 = parts[1].parse().expect("a number");
    // No server has written this record yet, so the follower cannot have read it.
    let since = format!("?since={}-{}-0", parts[0], seq + 5);
    let asking = {
        let address = follower.address;
        tokio::spawn(async move { Stream::at(address, &since).await })
    };
    for n in 0..100 {
        let taken = leader.client.acquire(&format!("l{n}"), "x", 60_000, json!({})).await;
        assert_eq!(taken.status, 200);
        if asking.is_finished() {
            break;
        }
    }
    let mut here = asking.await.expect("no panic");
    assert_eq!(leader.client.acquire("last", "x", 60_000, json!({})).await.status, 200);
    here.until("\"lock_name\":\"last\"").await;
    holds(!here.text.contains("event: gap"), &here.text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_of_what_no_follower_has_read_is_waited_for() {
    ahead_of_a_follower().await.expect("it is waited for");
}

/// Each server stores the whole history on disk, whether it leads or follows, and returns all events up to the time of
/// the request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_server_keeps_the_history_of_all() {
    let world = World::new().await;
    let forgetful = |name: &str| {
        let mut settings = world.settings(name, name);
        settings.engine.events_max = 1;
        settings
    };
    let leader = world.start(forgetful("n1")).await.expect("a start");
    leader.until("/leaderz", 200).await;
    let follower = world.start(forgetful("n2")).await.expect("a start");
    follower.until("/readyz", 200).await;
    for n in 0..5 {
        let taken = leader.client.acquire(&format!("l{n}"), "x", 60_000, json!({})).await;
        assert_eq!(taken.status, 200);
        // Immediately after the write: the follower returns everything that the leader has acknowledged.
        let past = follower.client.get("/v1/history").await;
        assert_eq!(past.get("events").as_array().map(Vec::len), Some(n + 1), "{past:?}");
    }
    let of_leader = leader.client.get("/v1/history").await;
    assert_eq!(of_leader.text, follower.client.get("/v1/history").await.text);
    let page = follower.client.get("/v1/history?limit=2").await;
    let next = format!("/v1/history?cursor={}", page.text_of("next_cursor"));
    let rest = follower.client.get(&next).await;
    assert_eq!(rest.get("events").as_array().map(Vec::len), Some(3), "{rest:?}");
    // The history is on disk and survives a restart.
    follower.server.stop().await.expect("a good end");
    let again = world.start(forgetful("n2")).await.expect("a start");
    again.until("/readyz", 200).await;
    assert_eq!(again.client.get("/v1/history").await.text, of_leader.text);
}
