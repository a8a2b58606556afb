//! Tests of `GET /v1/claims/(id)/?wait=SECONDS`, which waits until a claim no longer waits.

use std::time::{Duration, Instant};

use crate::dialects::claims::{Scene, named};

async fn polled(scene: &Scene, id: u64, wait: &str) -> tokio::task::JoinHandle<String> {
    let (client, path) = (scene.local.client.clone(), format!("/v1/claims/{id}/?wait={wait}"));
    let poll = tokio::spawn(async move { client.get(&path).await.text_of("status") });
    // The poll might not have reached the server yet. The result must be the same either way.
    tokio::time::sleep(Duration::from_millis(20)).await;
    poll
}

#[tokio::test]
async fn it_returns_at_once_if_the_claim_does_not_wait() {
    let scene = Scene::start().await;
    let began = Instant::now();
    for status in ["active", "released", "expired", "revoked"] {
        let id = scene.in_status(status).await;
        let poll = polled(&scene, id, "300").await;
        assert_eq!(poll.await.unwrap(), status);
    }
    assert_eq!(scene.local.client.get("/v1/claims/99?wait=300").await.status, 404);
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn it_returns_when_the_claim_becomes_active() {
    let scene = Scene::start().await;
    let first = scene.claim("r", 10.0).await;
    let second = scene.claim("r", 10.0).await;
    let third = scene.claim("r", 10.0).await;
    let (poll, other) = (polled(&scene, second, "1e9").await, polled(&scene, third, "300").await);
    let began = Instant::now();
    scene.set(first, "released").await;
    assert_eq!(poll.await.unwrap(), "active");
    assert!(began.elapsed() < Duration::from_secs(60), "by the event, not by the end of its wait");
    assert!(!other.is_finished(), "it is not this one's turn");
    scene.local.advance_ms(10_000);
    assert_eq!(other.await.unwrap(), "active", "by the server's own expiry of the one before");
}

#[tokio::test]
async fn it_returns_when_the_claim_ends_while_it_waits() {
    let scene = Scene::start().await;
    let id = scene.in_status("waiting").await;
    let poll = polled(&scene, id, "300").await;
    scene.set(id, "withdrawn").await;
    assert_eq!(poll.await.unwrap(), "withdrawn");
}

#[tokio::test]
async fn it_returns_when_the_time_is_over() {
    let scene = Scene::start().await;
    let id = scene.in_status("waiting").await;
    for wait in ["0", "0.05", "5e-2"] {
        let poll = polled(&scene, id, wait).await;
        assert_eq!(poll.await.unwrap(), "waiting");
    }
}

#[tokio::test]
async fn it_does_not_hold_up_a_stop() {
    let scene = Scene::start().await;
    let id = scene.in_status("waiting").await;
    let poll = polled(&scene, id, "300").await;
    let began = Instant::now();
    scene.local.stop().await;
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_eq!(poll.await.unwrap(), "", "503");
}

#[tokio::test]
async fn an_invalid_wait_is_400() {
    let scene = Scene::start().await;
    let id = scene.claim("r", 10.0).await;
    for (query, name) in [
        ("wait=", "wait"),
        ("wait=x", "wait"),
        ("wait=-1", "wait"),
        ("wait=NaN", "wait"),
        ("wait=inf", "wait"),
        ("wait=1&wait=1", "wait"),
        ("x=1", "x"),
    ] {
        let answer = scene.local.client.get(&format!("/v1/claims/{id}/?{query}")).await;
        assert_eq!(named(&answer), [name], "{query}");
    }
}

#[tokio::test]
async fn it_waits_no_longer_than_the_maximum() {
    let mut settings = leasehold_testkit::settings(None);
    settings.engine.limits.wait_max = leasehold_core::Span::from_millis(50);
    let scene = Scene { local: leasehold_testkit::Local::start(settings).await };
    let id = scene.in_status("waiting").await;
    let began = Instant::now();
    let poll = polled(&scene, id, "300").await;
    assert_eq!(poll.await.unwrap(), "waiting");
    assert!(began.elapsed() < Duration::from_secs(60));
}
