//! Tests of TLS handshakes that never finish.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::transport::{HEALTH, PATIENCE, World, ask, status};

/// The first bytes of a TLS handshake.
const BEGUN: [u8; 6] = [22, 3, 1, 2, 0, 1];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_slow_handshakes_block_no_other_client() {
    let world = World::with(|settings, _| {
        settings.http.handshakes_max = 100;
        settings.http.handshake_timeout = Duration::from_secs(600);
        settings.http.header_timeout = Duration::from_secs(600);
    })
    .await;
    let mut slow = Vec::new();
    for _ in 0..1000 {
        let mut stream = TcpStream::connect(world.https()).await.unwrap();
        stream.write_all(&BEGUN).await.unwrap();
        slow.push(stream);
    }
    for _ in 0..20 {
        let began = Instant::now();
        let mut stream = world.connect().await;
        assert_eq!(status(&ask(&mut stream, HEALTH).await), 200);
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    }
    assert_eq!(world.local.client.get("/healthz").await.status, 200);
    // The connections that had to make room were closed.
    let reason = "leasehold_handshakes_failed_total{reason=\"shed\"}";
    world.until_metric(reason, |n| n >= 900).await;
    world.until_metric("leasehold_connections", |n| n <= 102).await;
    world.local.stop().await;
}

#[tokio::test]
async fn a_handshake_has_its_time() {
    let world = World::with(|settings, _| {
        settings.http.handshake_timeout = Duration::from_millis(50);
    })
    .await;
    for bytes in [&[][..], &BEGUN] {
        let mut stream = TcpStream::connect(world.https()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        let _ = ended.expect("it never ended");
    }
    let reason = "leasehold_handshakes_failed_total{reason=\"timeout\"}";
    world.until_metric(reason, |n| n == 2).await;
    world.local.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_does_not_wait_for_handshakes() {
    let world = World::with(|settings, _| {
        settings.http.handshake_timeout = Duration::from_secs(600);
        settings.shutdown_timeout = Duration::from_secs(600);
    })
    .await;
    let stream = TcpStream::connect(world.https()).await.unwrap();
    world.until_metric("leasehold_connections", |n| n == 2).await;
    tokio::time::timeout(PATIENCE, world.local.stop()).await.expect("it waits");
    drop(stream);
}
