//! Tests of limits: values that are too long, too large or empty, and values just within the limit.

use leasehold_core::Limits;
use leasehold_engine as engine;
use leasehold_server::serve::Settings;
use leasehold_testkit::{Local, Value, json, settings};

use crate::dialects::errors::{Scene, check_failure, get, post};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

#[tokio::test]
async fn an_acquire_out_of_bounds_is_refused_and_the_field_named() {
    let scene = Scene::new().await;
    let metadata = "x".repeat(16 * 1024 - 1);
    let cases = [
        (json!({"ttl_ms": null}), "ttl_ms"),
        (json!({"ttl_ms": 0}), "ttl_ms"),
        (json!({"ttl_ms": 0, "session_id": scene.session_id, "owner_id": "a"}), "ttl_ms"),
        (json!({"ttl_ms": DAY_MS + 1}), "ttl_ms"),
        (json!({"ttl_ms": u64::MAX}), "ttl_ms"),
        (json!({"wait_ms": DAY_MS + 1}), "wait_ms"),
        (json!({"wait_ms": u64::MAX}), "wait_ms"),
        (json!({"grace_ms": HOUR_MS + 1}), "grace_ms"),
        (json!({"grace_ms": u64::MAX}), "grace_ms"),
        (json!({"grace_ms": 5, "mode": "shared"}), "grace_ms"),
        (json!({"grace_ms": 5, "limit": 2}), "grace_ms"),
        (json!({"limit": 0}), "limit"),
        (json!({"limit": 10_001}), "limit"),
        (json!({"limit": u32::MAX}), "limit"),
        (json!({"limit": 4_294_967_296_u64}), "limit"),
        (json!({"limit": 2, "mode": "exclusive"}), "limit"),
        (json!({"limit": 2, "mode": "shared"}), "limit"),
        (json!({"mode": "Shared"}), "mode"),
        (json!({"mode": "counted"}), "mode"),
        (json!({"mode": ""}), "mode"),
        (json!({"owner_id": ""}), "owner_id"),
        (json!({"owner_id": "o".repeat(257)}), "owner_id"),
        (json!({"owner_id": "ü".repeat(129)}), "owner_id"),
        (json!({"request_id": ""}), "request_id"),
        (json!({"request_id": "r".repeat(129)}), "request_id"),
        (json!({"metadata": metadata}), "metadata"),
    ];
    for (changed, field) in cases {
        for lock in ["free", "job"] {
            let mut body = json!({"owner_id": "b", "ttl_ms": 1000});
            let members = changed.as_object().expect("an object").clone();
            body.as_object_mut().expect("an object").extend(members);
            let ask = post(&format!("/v1/locks/{lock}/acquire"), body.to_string());
            scene.refuses(ask, 400, "INVALID_REQUEST", field).await;
        }
    }
}

#[tokio::test]
async fn everything_may_be_as_large_as_its_limit() {
    let scene = Scene::new().await;
    let (namespace, lock) = ("n".repeat(128), "l".repeat(512));
    let path = format!("/v1/namespaces/{namespace}/locks/{lock}");
    let body = json!({
        "owner_id": "ü".repeat(128), "ttl_ms": DAY_MS, "request_id": "r".repeat(128),
        "wait_ms": DAY_MS, "grace_ms": HOUR_MS, "metadata": "x".repeat(16 * 1024 - 2),
    });
    let acquired = scene.send(post(&format!("{path}/acquire"), body.to_string())).await;
    assert_eq!(acquired.status, 200, "{}", acquired.text);
    assert_eq!(acquired.number("expires_in_ms"), DAY_MS);
    let looked = scene.local.client.get(&path).await;
    assert_eq!((looked.text_of("lock_name"), looked.get("metadata")), (lock, &body["metadata"]));
    let counted = scene.local.client.acquire("counted", "b", 1, json!({"limit": 10_000})).await;
    assert_eq!(counted.status, 200, "{}", counted.text);
    let month = json!({"owner_id": "b", "ttl_ms": 30 * DAY_MS});
    assert_eq!(scene.send(post("/v1/sessions", month.to_string())).await.status, 201);
    let why = json!({"reason": "y".repeat(1024)});
    assert_eq!(scene.send(post(&format!("{path}/revoke"), why.to_string())).await.status, 200);
}

#[tokio::test]
async fn the_other_calls_have_bounds_too() {
    let scene = Scene::new().await;
    let (long, name, namespace) = ("r".repeat(129), "l".repeat(513), "n".repeat(129));
    let proof = |more: Value| scene.proof(more);
    let cases = [
        ("/v1/locks/job/renew", proof(json!({"extend_by_ms": 0})), "extend_by_ms"),
        ("/v1/locks/job/renew", proof(json!({"extend_by_ms": DAY_MS + 1})), "extend_by_ms: "),
        ("/v1/locks/job/renew", proof(json!({"extend_by_ms": u64::MAX})), "extend_by_ms"),
        (
            "/v1/locks/job/renew",
            proof(json!({"extend_by_ms": 5, "request_id": long})),
            "request_id",
        ),
        ("/v1/locks/job/renew", proof(json!({"extend_by_ms": 5, "request_id": ""})), "request_id"),
        ("/v1/locks/job/release", proof(json!({"request_id": long})), "request_id"),
        ("/v1/locks/job/release", proof(json!({"request_id": ""})), "request_id"),
        ("/v1/locks/job/revoke", json!({"reason": "y".repeat(1025)}), "reason"),
        ("/v1/sessions", json!({"owner_id": "b", "ttl_ms": 0}), "ttl_ms must be more than 0"),
        ("/v1/sessions", json!({"owner_id": "b", "ttl_ms": 30 * DAY_MS + 1}), "ttl_ms"),
        ("/v1/sessions", json!({"owner_id": "b", "ttl_ms": u64::MAX}), "ttl_ms"),
        ("/v1/sessions", json!({"owner_id": "", "ttl_ms": 1000}), "owner_id"),
        ("/v1/sessions", json!({"owner_id": "o".repeat(257), "ttl_ms": 1000}), "owner_id"),
        ("/v1/fence/check", json!({"lock_name": "", "fencing_token": 1}), "name"),
        ("/v1/fence/check", json!({"lock_name": name, "fencing_token": 1}), "name"),
        (
            "/v1/fence/check",
            json!({"lock_name": "x", "fencing_token": 1, "namespace": namespace}),
            "namespace",
        ),
    ];
    for (path, body, field) in cases {
        scene.refuses(post(path, body.to_string()), 400, "INVALID_REQUEST", field).await;
    }
}

#[tokio::test]
async fn names_in_paths_are_neither_empty_nor_over_long() {
    let scene = Scene::new().await;
    let body = json!({"owner_id": "b", "ttl_ms": 1000}).to_string();
    let long = ["l".repeat(513), "%20".repeat(513), "%C3%BC".repeat(257)];
    for name in long.iter().map(String::as_str) {
        let path = format!("/v1/locks/{name}");
        scene.refuses(get(&path), 400, "INVALID_REQUEST", "name").await;
        let acquire = post(&format!("{path}/acquire"), body.clone());
        scene.refuses(acquire, 400, "INVALID_REQUEST", "name").await;
        let revoke = post(&format!("{path}/revoke"), r#"{"reason":"x"}"#);
        scene.refuses(revoke, 400, "INVALID_REQUEST", "name").await;
    }
    scene.refuses(post("/v1/locks//acquire", body.clone()), 400, "INVALID_REQUEST", "name").await;
    for namespace in [String::new(), "n".repeat(129), "%C3%BC".repeat(65)] {
        let path = format!("/v1/namespaces/{namespace}/locks/job");
        scene.refuses(get(&path), 400, "INVALID_REQUEST", "namespace").await;
        let acquire = post(&format!("{path}/acquire"), body.clone());
        scene.refuses(acquire, 400, "INVALID_REQUEST", "namespace").await;
    }
}

/// Each limit is already reached by the lock and the session that the scene creates, so one more is refused.
#[tokio::test]
async fn one_more_than_there_may_be_is_refused() {
    let default = Limits::default;
    let lock = ("/v1/locks/free/acquire", json!({"owner_id": "a", "ttl_ms": 1000}));
    let namespace = ("/v1/namespaces/other/locks/x/acquire", lock.1.clone());
    let session = ("/v1/sessions", json!({"owner_id": "a", "ttl_ms": 1000}));
    let cases = [
        (Limits { principal_leases_max: 1, ..default() }, lock.clone(), "leases"),
        (Limits { locks_max: 1, ..default() }, lock, "locks"),
        (Limits { namespaces_max: 1, ..default() }, namespace, "namespaces"),
        (Limits { principal_sessions_max: 1, ..default() }, session.clone(), "sessions"),
        (Limits { sessions_max: 1, ..default() }, session, "sessions"),
    ];
    for (limits, (path, body), word) in cases {
        let scene = Scene::of(Local::start(with_limits(limits)).await).await;
        scene.refuses(post(path, body.to_string()), 429, "LIMIT_REACHED", word).await;
    }
}

#[tokio::test]
async fn a_waiter_counts_as_a_lease_of_its_principal() {
    let limits = Limits { principal_leases_max: 2, ..Limits::default() };
    let scene = Scene::of(Local::start(with_limits(limits)).await).await;
    let body = json!({"owner_id": "b", "ttl_ms": 1000, "wait_ms": 5000});
    let waiting = scene.waits("job", body, 1).await;
    let refused = scene.local.client.acquire("free", "b", 1000, json!({})).await;
    check_failure("one more", &refused, 429, "LIMIT_REACHED", "leases");
    assert_eq!(scene.local.client.release(&scene.job, json!({})).await.status, 200);
    assert_eq!(waiting.await.expect("no panic").status, 200);
}

/// Returns test settings with these limits.
pub(crate) fn with_limits(limits: Limits) -> Settings {
    let engine = engine::Options { limits, ..engine::Options::default() };
    Settings { engine, ..settings(None) }
}
