//! Waiting for a lock, including over broken connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use leasehold::api::RevokeAllRequest;
use leasehold::clock::Clock;
use leasehold::{Client, LockGuard};
use leasehold_testkit::Local;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};

use crate::lease::{TTL, World};

const WAIT: Duration = Duration::from_secs(600);

async fn n_waiting(client: &Client, n: usize) -> bool {
    client.look("orders").await.unwrap().n_waiting == n
}

#[tokio::test]
async fn the_queue_is_first_come_first_served_and_a_long_wait_costs_nothing_of_the_lease() {
    let world = World::new().await;
    let guard = world.client.lock("orders").ttl(TTL).acquire().await.unwrap();
    let mut waiting = Vec::new();
    for n in 0..3 {
        let request = world.client.lock("orders").owner(format!("w-{n}")).ttl(TTL).wait(WAIT);
        waiting.push(tokio::spawn(request.acquire()));
        world.until("it waits", async || n_waiting(&world.client, n + 1).await).await;
    }
    for _ in 0..3 {
        world.advance_and_renew(TTL / 3, &guard).await;
    }
    world.advance(TTL / 6);
    let mut last = Some(guard);
    for (n, waiting) in waiting.into_iter().enumerate() {
        last.take().unwrap().release().await.unwrap();
        let granted: LockGuard = waiting.await.unwrap().unwrap();
        assert_eq!((granted.owner(), granted.fencing_token()), (&*format!("w-{n}"), n as u64 + 2));
        // The client waited for 35 s in a single request. The margin of 1 % for clock drift applies only to the lease.
        let left = granted.end().since(world.clock.now());
        assert_eq!(left, TTL - TTL / 100);
        last = Some(granted);
    }
}

#[tokio::test]
async fn a_wait_that_is_over_is_a_conflict_and_leaves_the_queue() {
    let world = World::new().await;
    let _guard = world.client.lock("orders").ttl(TTL).acquire().await.unwrap();
    let wait = Duration::from_secs(5);
    let asking = tokio::spawn(world.other().lock("orders").wait(wait).acquire());
    world.until("it waits", async || n_waiting(&world.client, 1).await).await;
    world.advance(wait);
    assert!(asking.await.unwrap().unwrap_err().is_conflict());
    assert!(n_waiting(&world.client, 0).await);
}

#[tokio::test]
async fn a_wait_that_was_revoked_is_not_begun_again() {
    let world = World::new().await;
    let _guard = world.client.lock("orders").ttl(TTL).acquire().await.unwrap();
    let asking = tokio::spawn(world.other().lock("orders").owner("w").wait(WAIT).acquire());
    world.until("it waits", async || n_waiting(&world.client, 1).await).await;
    let revoke = RevokeAllRequest {
        owner: Some("w".into()),
        session: None,
        principal: None,
        reason: "enough".into(),
        dry_run: false,
    };
    world.client.revoke_all(&revoke).await.unwrap();
    assert!(asking.await.unwrap().unwrap_err().is_conflict());
    assert!(n_waiting(&world.client, 0).await);
}

#[tokio::test]
async fn a_lease_that_was_slept_through_is_not_taken_for_ours() {
    let world = World::new().await;
    let guard = world.client.lock("orders").ttl(TTL).acquire().await.unwrap();
    let wire = Wire::to(&world.local).await;
    let asking = wire.client(&world).lock("orders").ttl(TTL).wait(WAIT).acquire();
    let asking = tokio::spawn(asking);
    world.until("it waits", async || n_waiting(&world.client, 1).await).await;
    wire.held_up_below.send_replace(usize::MAX);
    guard.release().await.unwrap();
    world.until("it is granted", async || n_waiting(&world.client, 0).await).await;
    world.advance(TTL * 2);
    wire.held_up_below.send_replace(0);
    while !asking.is_finished() {
        world.advance(Duration::from_millis(20));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let granted = asking.await.unwrap().unwrap();
    assert!(granted.is_held());
    assert_eq!(granted.fencing_token(), 3, "the second lease is ours, the first one is not");
}

/// A proxy between a client and the server, which can cut every connection, or hold back every response on the first
/// ones.
struct Wire {
    address: SocketAddr,
    cut: broadcast::Sender<()>,
    /// Responses are held back on connections with a number below this.
    held_up_below: watch::Sender<usize>,
    n_connections: Arc<AtomicUsize>,
}

impl Wire {
    async fn to(local: &Local) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, server) = (listener.local_addr().unwrap(), local.address);
        let (cut, held_up_below) = (broadcast::Sender::new(1), watch::Sender::new(0));
        let n_connections = Arc::<AtomicUsize>::default();
        let (cutting, holding, counted) =
            (cut.clone(), held_up_below.clone(), n_connections.clone());
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let number = counted.fetch_add(1, Relaxed);
                let (mut cut, held_up_below) = (cutting.subscribe(), holding.subscribe());
                let far = TcpStream::connect(server).await.unwrap();
                tokio::spawn(async move {
                    tokio::select! {
                        () = carry(near, far, number, held_up_below) => {}
                        _ = cut.recv() => {}
                    }
                });
            }
        });
        Self { address, cut, held_up_below, n_connections }
    }

    fn client(&self, world: &World) -> Client {
        let url = format!("http://{}", self.address);
        Client::builder(&url).owner("far").clock(world.clock.clone()).build().unwrap()
    }
}

async fn carry(
    near: TcpStream,
    far: TcpStream,
    n: usize,
    mut held_up_below: watch::Receiver<usize>,
) {
    let ((mut from_near, mut to_near), (mut from_far, mut to_far)) =
        (near.into_split(), far.into_split());
    let there = async { drop(tokio::io::copy(&mut from_near, &mut to_far).await) };
    let back = async {
        let mut piece = [0; 4096];
        while let Ok(size @ 1..) = from_far.read(&mut piece).await {
            held_up_below.wait_for(|below| n >= *below).await.unwrap();
            to_near.write_all(&piece[..size]).await.unwrap();
        }
    };
    tokio::select! { () = there => {}, () = back => {} }
}

#[tokio::test]
async fn a_place_in_the_queue_survives_broken_connections() {
    let world = World::new().await;
    let guard = world.client.lock("orders").ttl(TTL).acquire().await.unwrap();
    let wire = Wire::to(&world.local).await;
    let waiting = tokio::spawn(wire.client(&world).lock("orders").ttl(TTL).wait(WAIT).acquire());
    world.until("it waits", async || n_waiting(&world.client, 1).await).await;
    let behind = world.other().lock("orders").ttl(TTL).wait(WAIT).acquire();
    let behind = tokio::spawn(behind);
    world.until("both wait", async || n_waiting(&world.client, 2).await).await;

    for n in 1..=3 {
        wire.cut.send(()).unwrap();
        world
            .until("it is back", async || {
                world.clock.advance(Duration::from_millis(10));
                let queue = world.client.look("orders").await.unwrap().queue.unwrap();
                let is_back = wire.n_connections.load(Relaxed) > n && !queue[0].parked;
                assert_eq!((queue.len(), queue[0].owner_id.as_str()), (2, "far"));
                is_back
            })
            .await;
    }
    guard.release().await.unwrap();
    let granted = waiting.await.unwrap().unwrap();
    assert_eq!((granted.owner(), granted.fencing_token()), ("far", 2));
    granted.release().await.unwrap();
    assert_eq!(behind.await.unwrap().unwrap().fencing_token(), 3);
}

/// Duration of one try within a long wait.
const SLICE: Duration = Duration::from_secs(30 + 6);

#[tokio::test]
async fn a_wait_leaves_a_connection_that_went_silent_and_hears_of_its_lease() {
    let world = World::new().await;
    let ttl = 4 * SLICE;
    let guard = world.client.lock("orders").ttl(ttl).acquire().await.unwrap();
    let wire = Wire::to(&world.local).await;
    let waiting = tokio::spawn(wire.client(&world).lock("orders").ttl(ttl).wait(WAIT).acquire());
    world.until("it waits", async || n_waiting(&world.client, 1).await).await;
    wire.held_up_below.send_replace(1);
    guard.release().await.unwrap();
    world.until("it is granted", async || n_waiting(&world.client, 0).await).await;
    world.advance(SLICE - Duration::from_secs(1));
    assert_eq!(wire.n_connections.load(Relaxed), 1);
    world.advance(Duration::from_secs(1));
    let granted = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    let granted = granted.expect("it hears of it").unwrap().unwrap();
    assert_eq!((granted.fencing_token(), wire.n_connections.load(Relaxed)), (2, 2));
}

#[tokio::test]
async fn a_long_wait_is_requested_again_and_keeps_its_place() {
    let world = World::patient().await;
    let ttl = Duration::from_secs(3600);
    let guard = world.client.lock("orders").ttl(ttl).acquire().await.unwrap();
    let wire = Wire::to(&world.local).await;
    let waiting = tokio::spawn(wire.client(&world).lock("orders").ttl(ttl).wait(WAIT).acquire());
    world.until("it waits", async || n_waiting(&world.client, 1).await).await;
    let behind = tokio::spawn(world.other().lock("orders").ttl(ttl).wait(WAIT).acquire());
    world.until("both wait", async || n_waiting(&world.client, 2).await).await;
    // More often than the client retries after failures in a row.
    for n in 1..=10 {
        world.advance(SLICE);
        world
            .until("it is back", async || {
                let queue = world.client.look("orders").await.unwrap().queue.unwrap();
                assert_eq!((queue.len(), queue[0].owner_id.as_str()), (2, "far"));
                wire.n_connections.load(Relaxed) > n && queue.iter().all(|waiter| !waiter.parked)
            })
            .await;
    }
    guard.release().await.unwrap();
    let granted = waiting.await.unwrap().unwrap();
    assert_eq!((granted.owner(), granted.fencing_token()), ("far", 2));
    granted.release().await.unwrap();
    assert_eq!(behind.await.unwrap().unwrap().fencing_token(), 3);
}

/// A client that switched to the silent server would lose its position in the queue.
#[tokio::test]
async fn a_wait_stays_at_an_address_that_answers() {
    let world = World::patient().await;
    let ttl = Duration::from_secs(3600);
    let guard = world.client.lock("orders").ttl(ttl).acquire().await.unwrap();
    let (wire, silent) = (Wire::to(&world.local).await, TcpListener::bind("127.0.0.1:0").await);
    let silent = silent.unwrap();
    let urls = format!("http://{},http://{}", wire.address, silent.local_addr().unwrap());
    let client = Client::builder(&urls).owner("far").clock(world.clock.clone()).build().unwrap();
    let waiting = tokio::spawn(client.lock("orders").ttl(ttl).wait(WAIT).acquire());
    world.until("it waits", async || n_waiting(&world.client, 1).await).await;
    world.local.advance_ms(SLICE.as_millis() as u64);
    // The engine handles a request after the clock has advanced. Otherwise `/livez` would report the engine as stuck.
    world.client.look("orders").await.unwrap();
    world.clock.advance(SLICE);
    let is_back = async || {
        let queue = world.client.look("orders").await.unwrap().queue.unwrap();
        assert_eq!(queue.len(), 1, "it has kept its place");
        wire.n_connections.load(Relaxed) > 1 && !queue[0].parked
    };
    world.until("it is back", is_back).await;
    let asked = tokio::time::timeout(Duration::ZERO, silent.accept()).await;
    assert!(asked.is_err(), "it went to the silent one");
    guard.release().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().fencing_token(), 2);
}

#[tokio::test]
async fn a_client_that_stops_waiting_leaves_the_queue_immediately() {
    let world = World::new().await;
    let guard = world.client.lock("orders").ttl(TTL).acquire().await.unwrap();
    let n_waiting = async || world.client.look("orders").await.unwrap().n_waiting;
    let wait = Duration::from_secs(600);
    let one = tokio::spawn(world.other().lock("orders").ttl(TTL).wait(wait).acquire());
    world.until("it waits", async || n_waiting().await == 1).await;
    one.abort();
    world.until("it left", async || n_waiting().await == 0).await;
    let several = world.other().locks().lock("stock").lock("orders").wait(wait).acquire();
    let several = tokio::spawn(several);
    world.until("it waits", async || n_waiting().await == 1).await;
    several.abort();
    world.until("it left", async || n_waiting().await == 0).await;
    // A cancelled wait is not granted later.
    guard.release().await.unwrap();
    assert!(!world.client.look("orders").await.unwrap().held);
}
