//! Tests of the operator's settings, and of what survives a restart.

use std::sync::Arc;

use leasehold_base::clock::FakeClock;
use leasehold_core::Span;
use leasehold_server::dialect::{self, Dialect};
use leasehold_testkit::{Local, folder, json, settings};

use crate::dialects::sticky::{
    Homelab, WALL_MS, check_expired, check_grace, check_granted, check_held, check_released, time,
};

#[tokio::test]
async fn a_restart_keeps_lock_and_grace() {
    let folder = folder();
    let clock = Arc::new(FakeClock::default());
    clock.set_wall_ms(WALL_MS);
    let start = async || {
        let local = Local::start_at(settings(Some(folder.path())), clock.clone()).await;
        Homelab { local }
    };
    let lab = start().await;
    check_granted(&lab.post("client=laptop1&ttl=30s").await, "acquired", 1);
    lab.local.stop().await;
    clock.advance(Span::from_secs(20));
    let lab = start().await;
    check_held(&lab.post("client=laptop2").await, "laptop1", "10:30:00");
    lab.local.stop().await;
    clock.advance(Span::from_secs(12));
    let lab = start().await;
    check_grace(&lab.post("client=laptop2").await, "laptop1", "10:30:05");
    lab.local.stop().await;
    clock.advance(Span::from_millis(2_999));
    let lab = start().await;
    check_grace(&lab.post("client=laptop2").await, "laptop1", "10:30:05");
    assert_eq!(lab.get("").await.text_of("expires_at"), time("10:30:00"));
    check_granted(&lab.post("client=laptop1&ttl=1s").await, "acquired", 2);
    lab.local.stop().await;
    clock.advance(Span::from_secs(6));
    let lab = start().await;
    assert_eq!(lab.get("").await.text_of("holder"), "laptop1", "still shown after a restart");
    check_granted(&lab.post("client=laptop2").await, "acquired from laptop1", 3);
    lab.local.stop().await;
}

#[tokio::test]
async fn a_restart_keeps_that_the_grace_was_given_up() {
    let folder = folder();
    let lab = Homelab::with(settings(Some(folder.path()))).await;
    lab.post("client=laptop1&ttl=1s").await;
    lab.at_s(2);
    check_released(&lab.delete("client=laptop1").await);
    let clock = lab.local.clock.clone();
    lab.local.stop().await;
    let lab = Homelab { local: Local::start_at(settings(Some(folder.path())), clock).await };
    check_granted(&lab.post("client=laptop2").await, "acquired", 2);
}

#[tokio::test]
async fn the_grace_is_a_setting() {
    let mut settings = settings(None);
    settings.dialect.sticky.grace = Span::from_secs(60);
    let lab = Homelab::with(settings).await;
    lab.post("client=laptop1&ttl=30s").await;
    assert_eq!(lab.get("").await.text_of("grace_until"), time("10:31:00"));
    lab.at_ms(89_999);
    check_grace(&lab.post("client=laptop2").await, "laptop1", "10:31:00");
    lab.at_ms(90_000);
    check_granted(&lab.post("client=laptop2").await, "acquired from laptop1", 2);
}

#[tokio::test]
async fn another_grace_is_for_locks_granted_from_then_on() {
    let folder = folder();
    let lab = Homelab::with(settings(Some(folder.path()))).await;
    lab.post("client=laptop1&ttl=30s").await;
    let clock = lab.local.clock.clone();
    lab.local.stop().await;
    let mut changed = settings(Some(folder.path()));
    changed.dialect.sticky.grace = Span::from_secs(60);
    let lab = Homelab { local: Local::start_at(changed, clock).await };
    check_granted(&lab.post("client=laptop1&ttl=30s").await, "renewed", 1);
    lab.at_s(31);
    check_grace(&lab.post("client=laptop2").await, "laptop1", "10:30:05");
    check_granted(&lab.post("client=laptop1&ttl=30s").await, "acquired", 2);
    lab.at_s(62);
    check_grace(&lab.post("client=laptop2").await, "laptop1", "10:31:31");
}

#[tokio::test]
async fn without_grace_an_expired_lock_is_free_at_once() {
    let mut settings = settings(None);
    settings.dialect.sticky.grace = Span::ZERO;
    let lab = Homelab::with(settings).await;
    lab.post("client=laptop1&ttl=30s").await;
    assert_eq!(lab.get("").await.text_of("grace_until"), time("10:30:00"));
    lab.at_s(30);
    check_expired(&lab.get("").await, "laptop1", "10:30:00", "10:30:00");
    check_granted(&lab.post("client=laptop2").await, "acquired from laptop1", 2);
}

#[tokio::test]
async fn the_default_ttl_is_never_more_than_the_server_allows() {
    let mut settings = settings(None);
    settings.engine.limits.ttl_max = Span::from_secs(10);
    let lab = Homelab::with(settings).await;
    assert_eq!(lab.post("client=laptop1").await.number("expires_in_ms"), 10_000);
    assert_eq!(lab.post("client=laptop1&ttl=11s").await.status, 400);
}

#[tokio::test]
async fn the_namespace_is_a_setting() {
    let mut settings = settings(None);
    settings.dialect.sticky.namespace = "laptops".into();
    let lab = Homelab::with(settings).await;
    lab.post("client=laptop1").await;
    assert_eq!(lab.native().await.get("held"), &json!(false));
    let seen = lab.local.client.get("/v1/namespaces/laptops/locks/default").await;
    assert_eq!(seen.text_of("owner_id"), "laptop1");
}

#[tokio::test]
async fn switched_off_it_is_not_there() {
    let mut settings = settings(None);
    settings.dialects = dialect::ALL.iter().copied().filter(|on| *on != Dialect::Sticky).collect();
    let lab = Homelab::with(settings).await;
    assert_eq!(lab.post("client=laptop1").await.status, 404);
    assert_eq!(lab.delete("client=laptop1").await.status, 404);
    assert_eq!(lab.get("").await.status, 404);
    assert_eq!(lab.native().await.status, 200);
}
