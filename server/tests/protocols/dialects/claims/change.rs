//! Tests of `PATCH` and `PUT /v1/claims/(id)/`, one for each sentence of the specification.

use hyper::Method;
use leasehold_testkit::json;

use crate::dialects::claims::{Scene, history, named};

const FINAL: [&str; 5] = ["released", "expired", "revoked", "aborted", "withdrawn"];

#[tokio::test]
async fn from_waiting_to_active_without_contention_is_200_with_ttl_set_to_timeout() {
    let scene = Scene::start().await;
    let first = scene.claim("r", 10.0).await;
    let second = scene.claim("r", 20.0).await;
    scene.local.advance_ms(4000);
    assert_eq!(scene.set(first, "released").await.status, 204);
    let answer = scene.set(second, "active").await;
    assert_eq!((answer.status, answer.text_of("status")), (200, "active".into()));
    assert_eq!(answer.get("ttl"), &json!(20.0));
    assert_eq!(answer.get("waiting_duration"), &json!(4.0));
}

#[tokio::test]
async fn from_active_to_active_is_200_and_extends_nothing() {
    let scene = Scene::start().await;
    let id = scene.claim("r", 10.0).await;
    scene.local.advance_ms(4000);
    let answer = scene.set(id, "active").await;
    assert_eq!((answer.status, answer.get("ttl")), (200, &json!(6.0)));
    assert_eq!(answer.get("active_duration"), &json!(4.0));
}

#[tokio::test]
async fn ttl_of_an_active_claim_is_set_to_what_was_requested() {
    let scene = Scene::start().await;
    let id = scene.claim("r", 10.0).await;
    for ttl in [100.5, 3.0] {
        let answer = scene.patch(id, json!({"ttl": ttl})).await;
        assert_eq!((answer.status, answer.get("ttl")), (200, &json!(ttl)));
        assert_eq!(answer.get("timeout"), &json!(10.0));
        assert_eq!(answer.get("resource"), "r");
        assert_eq!(answer.get("fencing_token"), 1, "a renewal mints no token");
    }
    scene.local.advance_ms(3000);
    assert_eq!(scene.status(id).await, "expired");
}

#[tokio::test]
async fn a_ttl_of_0_is_answered_as_active_and_is_expired_right_after() {
    let scene = Scene::start().await;
    let id = scene.claim("r", 10.0).await;
    let answer = scene.patch(id, json!({"ttl": 0})).await;
    assert_eq!((answer.status, answer.text_of("status")), (200, "active".into()));
    assert_eq!(answer.get("ttl"), &json!(0.0));
    assert_eq!(scene.status(id).await, "expired");
}

#[tokio::test]
async fn timeout_is_what_a_later_grant_starts_from() {
    let scene = Scene::start().await;
    let first = scene.claim("r", 10.0).await;
    let second = scene.claim("r", 10.0).await;
    let answer = scene.patch(first, json!({"timeout": 50})).await;
    assert_eq!((answer.status, answer.get("timeout")), (200, &json!(50.0)));
    assert_eq!(answer.get("ttl"), &json!(10.0), "the ttl it has stays");
    let answer = scene.patch(second, json!({"timeout": 30})).await;
    assert_eq!((answer.status, answer.text_of("status")), (200, "waiting".into()));
    scene.set(first, "released").await;
    assert_eq!(scene.get(second).await.get("ttl"), &json!(30.0));
}

#[tokio::test]
async fn from_active_to_released_is_204_and_released() {
    let scene = Scene::start().await;
    let id = scene.claim("r", 10.0).await;
    scene.local.advance_ms(2500);
    let answer = scene.set(id, "released").await;
    assert_eq!((answer.status, answer.text.as_str()), (204, ""));
    scene.local.advance_ms(1000);
    let after = scene.get(id).await;
    assert_eq!(history(&after), ["waiting", "active", "released"]);
    assert_eq!(after.get("active_duration"), &json!(2.5));
    assert!(after.get("ttl").is_null());
}

#[tokio::test]
async fn from_active_or_waiting_to_revoked_aborted_or_withdrawn_is_204_and_so() {
    let scene = Scene::start().await;
    for status in ["revoked", "aborted", "withdrawn"] {
        let active = scene.claim("r", 10.0).await;
        let waiting = scene.claim("r", 10.0).await;
        let last = scene.claim("r", 10.0).await;
        assert_eq!(scene.set(waiting, status).await.status, 204);
        assert_eq!(scene.set(active, status).await.status, 204);
        assert_eq!(history(&scene.get(active).await), ["waiting", "active", status]);
        let never_active = scene.get(waiting).await;
        assert_eq!(history(&never_active), ["waiting", status]);
        assert!(never_active.get("active_duration").is_null());
        assert_eq!(scene.status(last).await, "active", "a claim that left the queue is skipped");
        scene.set(last, "released").await;
    }
}

#[tokio::test]
async fn put_is_patch() {
    let scene = Scene::start().await;
    let id = scene.claim("r", 10.0).await;
    let path = format!("/v1/claims/{id}");
    assert_eq!(scene.send(Method::PUT, &path, r#"{"ttl":5}"#).await.status, 200);
    assert_eq!(scene.send(Method::PUT, &path, r#"{"status":"released"}"#).await.status, 204);
}

#[tokio::test]
async fn unknown_parameters_and_invalid_values_are_400() {
    let scene = Scene::start().await;
    let id = scene.claim("r", 10.0).await;
    for (body, expected) in [
        (json!({}), vec!["message"]),
        (json!({"x": 1}), vec!["x"]),
        (json!({"resource": "s"}), vec!["resource"]),
        (json!({"status": "active", "x": 1}), vec!["x"]),
        (json!({"status": "waiting"}), vec!["status"]),
        (json!({"status": "expired"}), vec!["status"]),
        (json!({"status": "Active"}), vec!["status"]),
        (json!({"status": null}), vec!["status"]),
        (json!({"status": 1}), vec!["status"]),
        (json!({"status": "released", "ttl": 5}), vec!["status", "ttl"]),
        (json!({"status": "active", "timeout": 5}), vec!["status", "timeout"]),
        (json!({"ttl": 5, "timeout": 5}), vec!["timeout", "ttl"]),
        (json!({"ttl": -1}), vec!["ttl"]),
        (json!({"ttl": "5"}), vec!["ttl"]),
        (json!({"ttl": true}), vec!["ttl"]),
        (json!({"ttl": 1e300}), vec!["ttl"]),
        (json!({"timeout": 86401}), vec!["timeout"]),
    ] {
        assert_eq!(named(&scene.patch(id, body).await), expected);
    }
    assert_eq!(scene.get(id).await.get("ttl"), &json!(10.0), "a refusal changes nothing");
}

#[tokio::test]
async fn a_non_existent_claim_is_404() {
    let scene = Scene::start().await;
    for body in [
        json!({"status": "active"}),
        json!({"status": "released"}),
        json!({"ttl": 1}),
        json!({"status": "revoked"}),
        json!({"timeout": 1}),
    ] {
        let answer = scene.patch(17, body).await;
        assert_eq!(answer.status, 404);
        assert!(!answer.text_of("message").is_empty());
    }
}

#[tokio::test]
async fn updating_from_final_states_is_409() {
    let scene = Scene::start().await;
    for status in FINAL {
        let id = scene.in_status(status).await;
        for to in ["active", "released", "revoked", "aborted", "withdrawn"] {
            let answer = scene.set(id, to).await;
            assert_eq!(answer.status, 409, "{status} to {to}");
            assert!(!answer.text_of("message").is_empty());
            assert!(answer.body.as_object().unwrap().contains_key("active_claim_id"));
        }
        assert_eq!(scene.patch(id, json!({"ttl": 5})).await.status, 409);
        assert_eq!(scene.patch(id, json!({"timeout": 5})).await.status, 409);
        assert_eq!(scene.status(id).await, status);
    }
}

#[tokio::test]
async fn from_waiting_to_released_is_409() {
    let scene = Scene::start().await;
    let active = scene.claim("r", 10.0).await;
    let id = scene.claim("r", 10.0).await;
    let answer = scene.set(id, "released").await;
    assert_eq!((answer.status, answer.number("active_claim_id")), (409, active));
    assert_eq!(scene.status(id).await, "waiting");
}

#[tokio::test]
async fn updating_ttl_when_status_is_not_active_is_409() {
    let scene = Scene::start().await;
    let id = scene.in_status("waiting").await;
    assert_eq!(scene.patch(id, json!({"ttl": 5})).await.status, 409);
    assert_eq!(scene.get(id).await.get("timeout"), &json!(1000.0));
}

#[tokio::test]
async fn from_waiting_to_active_with_contention_is_409() {
    let scene = Scene::start().await;
    let active = scene.claim("r", 10.0).await;
    let id = scene.claim("r", 10.0).await;
    let answer = scene.set(id, "active").await;
    assert_eq!((answer.status, answer.number("active_claim_id")), (409, active));
    assert_eq!(scene.status(id).await, "waiting");
}
