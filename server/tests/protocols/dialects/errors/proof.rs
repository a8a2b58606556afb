//! Tests of renewals and releases by a client that does not hold the lock, or no longer holds it.

use leasehold_testkit::{Response, Value, json};

use crate::dialects::errors::Scene;

/// Checks that renew and release both refuse this proof, each in its own shape, and change nothing.
async fn check(scene: &Scene, what: &str, path: &str, proof: Value, reason: &str) {
    let before = scene.everything().await;
    let mut renewal = proof.clone();
    renewal["extend_by_ms"] = json!(5000);
    let renewed = scene.local.client.post(&format!("{path}/renew"), renewal).await;
    check_shape(what, &renewed.expect("an answer"), "renewed", "NOT_OWNER_OR_EXPIRED");
    let released = scene.local.client.post(&format!("{path}/release"), proof).await;
    check_shape(what, &released.expect("an answer"), "released", reason);
    assert_eq!(scene.everything().await, before, "{what}");
}

#[track_caller]
fn check_shape(what: &str, response: &Response, done: &str, reason: &str) {
    let words = response.text_of("error");
    assert_eq!(response.status, 409, "{what}: {}", response.text);
    assert_eq!(response.body, json!({done: false, "reason": reason, "error": words}), "{what}");
    assert!(words.contains(' '), "{what}: in words");
}

#[tokio::test]
async fn a_wrong_proof_proves_nothing() {
    let scene = Scene::new().await;
    let mine = scene.local.client.acquire("mine", "b", 60_000, json!({})).await;
    let lease_id = scene.job.text_of("lease_id");
    let (number, secret) = lease_id.split_once('.').expect("a number and a secret");
    let flipped = if secret.starts_with('0') { "1" } else { "0" };
    let cases = [
        ("another owner", json!({"owner_id": "b"})),
        ("a token before", json!({"fencing_token": 0})),
        ("a token after", json!({"fencing_token": 2})),
        ("a token that does not exist", json!({"fencing_token": 1_u64 << 53})),
        ("the largest number", json!({"fencing_token": u64::MAX})),
        ("no lease", json!({"lease_id": ""})),
        ("only a number", json!({"lease_id": number})),
        ("only a secret", json!({"lease_id": secret})),
        ("a wrong secret", json!({"lease_id": format!("{number}.{flipped}{}", &secret[1..])})),
        ("a short secret", json!({"lease_id": format!("{number}.{}", &secret[1..])})),
        ("a long secret", json!({"lease_id": format!("{number}.0{secret}")})),
        ("a sign", json!({"lease_id": format!("+{lease_id}")})),
        ("a space", json!({"lease_id": format!("{lease_id} ")})),
        ("another's lease", json!({"lease_id": mine.get("lease_id")})),
        ("another number", json!({"lease_id": format!("99.{secret}")})),
        ("a number beyond all", json!({"lease_id": format!("99999999999999999999.{secret}")})),
    ];
    for (what, changed) in cases {
        check(&scene, what, "/v1/locks/job", scene.proof(changed), "NOT_OWNER").await;
    }
    for path in ["/v1/locks/mine", "/v1/locks/none", "/v1/namespaces/other/locks/job"] {
        check(&scene, path, path, scene.proof(json!({})), "NOT_OWNER").await;
    }
}

#[tokio::test]
async fn an_owner_that_cannot_be_one_is_a_mistake_in_every_call() {
    let scene = Scene::new().await;
    for owner in [String::new(), "x".repeat(257)] {
        for (call, more) in [("renew", json!({"extend_by_ms": 5000})), ("release", json!({}))] {
            let mut proof = scene.proof(json!({"owner_id": owner}));
            proof
                .as_object_mut()
                .expect("an object")
                .extend(more.as_object().expect("one").clone());
            let path = format!("/v1/locks/job/{call}");
            let refused = scene.local.client.post(&path, proof).await.expect("an answer");
            assert_eq!(refused.status, 400, "{}", refused.text);
            assert!(refused.text_of("error").contains("owner_id"), "{}", refused.text);
        }
    }
}

#[tokio::test]
async fn an_expired_lease_cannot_be_renewed_or_released_even_if_the_lock_is_free() {
    let scene = Scene::new().await;
    scene.local.advance_ms(59_999);
    let last = scene.local.client.get("/v1/locks/job").await;
    assert_eq!(last.body["holders"][0]["expires_in_ms"], 1);
    scene.local.advance_ms(1);
    check(&scene, "expired", "/v1/locks/job", scene.proof(json!({})), "EXPIRED").await;
    assert_eq!(scene.local.client.get("/v1/locks/job").await.get("held"), false);
}

#[tokio::test]
async fn a_stale_release_frees_nothing() {
    let scene = Scene::new().await;
    scene.local.advance_ms(60_000);
    let next = scene.local.client.acquire("job", "b", 1000, json!({})).await;
    assert_eq!((next.status, next.number("fencing_token")), (200, 2));
    check(&scene, "stale", "/v1/locks/job", scene.proof(json!({})), "NOT_OWNER").await;
    let forged = scene.proof(json!({"fencing_token": 2}));
    check(&scene, "with the new token", "/v1/locks/job", forged, "NOT_OWNER").await;
    assert_eq!(scene.local.client.get("/v1/locks/job").await.get("owner_id"), "b");
}

#[tokio::test]
async fn a_released_or_revoked_lease_is_not_the_owners() {
    let scene = Scene::new().await;
    assert_eq!(scene.local.client.release(&scene.job, json!({})).await.status, 200);
    check(&scene, "released", "/v1/locks/job", scene.proof(json!({})), "NOT_OWNER").await;
    let scene = Scene::new().await;
    let reason = json!({"reason": "maintenance"});
    let revoked = scene.local.client.post("/v1/locks/job/revoke", reason).await.expect("an answer");
    let leases = json!([{"owner_id": "a", "fencing_token": 1}]);
    assert_eq!(revoked.body, json!({"lock_name": "job", "revoked": leases}));
    check(&scene, "revoked", "/v1/locks/job", scene.proof(json!({})), "NOT_OWNER").await;
}

#[tokio::test]
async fn a_renewal_never_shortens() {
    let scene = Scene::new().await;
    for (extend_by_ms, expires_in_ms) in [(1, 60_000), (60_000, 60_000), (60_001, 60_001)] {
        let renewed = scene.local.client.renew(&scene.job, extend_by_ms, json!({})).await;
        let body = json!({
            "renewed": true, "lease_expiry_ms": expires_in_ms, "expires_in_ms": expires_in_ms,
            "expires_after_send_ms": expires_in_ms,
        });
        assert_eq!((renewed.status, renewed.body), (200, body), "{extend_by_ms}");
    }
}

#[tokio::test]
async fn a_fence_check_accepts_the_holders_token_only() {
    let scene = Scene::new().await;
    let checks = async |lock: &str, token: u64| {
        let body = json!({"lock_name": lock, "fencing_token": token});
        scene.local.client.post("/v1/fence/check", body).await.expect("an answer").body
    };
    for (token, accepted) in [(0, false), (1, true), (2, false), (u64::MAX, false)] {
        assert_eq!(checks("job", token).await, json!({"accepted": accepted, "last_token": 1}));
    }
    assert_eq!(checks("free", 1).await, json!({"accepted": false, "last_token": 0}));
    scene.local.advance_ms(60_000);
    assert_eq!(checks("job", 1).await, json!({"accepted": false, "last_token": 1}));
}
