//! Tests of the queue of claims: what the server does without a request.

use leasehold_auth::Permitted;
use leasehold_core::{Ending, Span, What};
use leasehold_engine::{Interest, Next};
use leasehold_testkit::{Local, json, settings};

use crate::dialects::claims::{Scene, history, named};

#[tokio::test]
async fn a_queue_of_waiting_claims_is_kept_for_each_resource() {
    let scene = Scene::start().await;
    let mut queues = Vec::new();
    for resource in ["a", "b"] {
        let mut queue = Vec::new();
        for _ in 0..4 {
            queue.push(scene.claim(resource, 10.0).await);
        }
        queues.push(queue);
    }
    for n in 0..4 {
        for queue in &queues {
            assert_eq!(scene.status(queue[n]).await, "active");
            for id in &queue[n + 1..] {
                assert_eq!(scene.status(*id).await, "waiting");
            }
        }
        scene.set(queues[0][n], "released").await;
        scene.set(queues[1][n], "revoked").await;
    }
}

#[tokio::test]
async fn when_a_claim_loses_its_active_status_the_next_one_becomes_active() {
    let scene = Scene::start().await;
    for status in ["released", "revoked", "aborted", "withdrawn", "expired"] {
        let first = scene.claim("r", 10.0).await;
        let second = scene.claim("r", 10.0).await;
        match status {
            "expired" => scene.local.advance_ms(10_000),
            _ => assert_eq!(scene.set(first, status).await.status, 204),
        }
        assert_eq!(scene.status(first).await, status);
        assert_eq!(scene.status(second).await, "active");
        scene.set(second, "released").await;
    }
}

#[tokio::test]
async fn the_server_itself_expires_and_promotes_also_claims_whose_client_has_died() {
    let scene = Scene::start().await;
    let namespace = Interest::Namespace("default".into());
    let mut events = scene.local.server.engine().follow(Permitted::unchecked(namespace), None);
    let mut next = async || {
        let Next::Event(event) = events.next().await else { panic!("a gap") };
        (event.fact.owner.instance.to_string(), event.fact.what)
    };
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(scene.claim("r", 10.0).await);
    }
    assert_eq!(next().await, (format!("claim:{}", ids[0]), What::Granted));
    for id in &ids[1..] {
        assert_eq!(next().await, (format!("claim:{id}"), What::Queued));
    }
    // No requests from here on. Each claim is promoted and expires in turn, just by the passing of time.
    for pair in ids.windows(2) {
        scene.local.advance_ms(10_000);
        assert_eq!(next().await, (format!("claim:{}", pair[0]), What::Ended(Ending::Expired)));
        assert_eq!(next().await, (format!("claim:{}", pair[1]), What::Granted));
    }
    scene.local.advance_ms(10_000);
    assert_eq!(next().await, (format!("claim:{}", ids[2]), What::Ended(Ending::Expired)));
    for id in ids {
        let claim = scene.get(id).await;
        assert_eq!(history(&claim), ["waiting", "active", "expired"]);
        assert_eq!(claim.get("active_duration"), &json!(10.0));
    }
}

#[tokio::test]
async fn a_claim_is_never_shown_as_active_once_its_ttl_is_over() {
    let scene = Scene::start().await;
    let id = scene.claim("r", 1.0).await;
    scene.local.advance_ms(999);
    let almost = scene.get(id).await;
    assert_eq!((almost.text_of("status"), almost.get("ttl")), ("active".into(), &json!(0.001)));
    scene.local.advance_ms(1);
    assert_eq!(scene.set(id, "released").await.status, 409);
    assert_eq!(scene.status(id).await, "expired");
}

#[tokio::test]
async fn a_claim_that_waited_too_long_is_expired() {
    let mut settings = settings(None);
    settings.dialect.claims.wait_max = Span::from_secs(60);
    let scene = Scene { local: Local::start(settings).await };
    let holder = scene.claim("r", 1000.0).await;
    let waiter = scene.claim("r", 10.0).await;
    scene.local.advance_ms(60_000);
    let claim = scene.get(waiter).await;
    assert_eq!(history(&claim), ["waiting", "expired"]);
    assert_eq!(claim.get("waiting_duration"), &json!(60.0));
    assert!(claim.get("active_duration").is_null());
    assert_eq!(scene.set(waiter, "active").await.status, 409);
    assert_eq!(scene.status(holder).await, "active");
}

#[tokio::test]
async fn where_no_claim_may_wait_contention_is_409() {
    let mut settings = settings(None);
    settings.dialect.claims.wait_max = Span::ZERO;
    let scene = Scene { local: Local::start(settings).await };
    let body = json!({"resource": "r", "timeout": 10});
    assert_eq!(scene.post(body.clone()).await.status, 201);
    let answer = scene.post(body).await;
    assert_eq!((answer.status, answer.number("active_claim_id")), (409, 1));
}

#[tokio::test]
async fn a_wait_longer_than_the_machine_allows_is_the_longest_it_allows() {
    let mut settings = settings(None);
    settings.engine.limits.wait_max = Span::from_secs(60);
    let scene = Scene { local: Local::start(settings).await };
    scene.claim("r", 1000.0).await;
    let waiter = scene.claim("r", 10.0).await;
    scene.local.advance_ms(60_000);
    assert_eq!(scene.status(waiter).await, "expired");
}

#[tokio::test]
async fn a_full_queue_is_told_to_come_back() {
    let mut settings = settings(None);
    settings.engine.limits.queue_max = 1;
    let scene = Scene { local: Local::start(settings).await };
    scene.claim("r", 10.0).await;
    scene.claim("r", 10.0).await;
    let answer = scene.post(json!({"resource": "r", "timeout": 10})).await;
    assert_eq!(answer.status, 429);
    assert!(answer.headers.contains_key("retry-after"));
    assert_eq!(named(&scene.post(json!({"resource": ""})).await), ["resource", "timeout"]);
}

#[tokio::test]
async fn ended_claims_stay_readable_for_the_retention_time_and_count() {
    let mut settings = settings(None);
    settings.engine.limits.ended_max = 2;
    settings.engine.limits.ended_retention = Span::from_secs(60);
    let scene = Scene { local: Local::start(settings).await };
    for _ in 0..4 {
        scene.in_status("released").await;
    }
    assert_eq!(scene.list("").await, [3, 4]);
    assert_eq!(scene.get(1).await.status, 404);
    scene.local.advance_ms(61_000);
    scene
        .local
        .until("all forgotten", async |client| client.get("/v1/claims/").await.text == "[]")
        .await;
}
