//! Tests of `GET /v1/claims/(id)/`, one for each sentence of the specification.

use hyper::Method;
use leasehold_testkit::json;

use crate::dialects::claims::Scene;

#[tokio::test]
async fn all_successful_gets_return_200_and_the_whole_claim() {
    let scene = Scene::start().await;
    for status in ["waiting", "active", "released", "expired", "revoked", "aborted", "withdrawn"] {
        let id = scene.in_status(status).await;
        for path in [format!("/v1/claims/{id}"), format!("/v1/claims/{id}/")] {
            let claim = scene.local.client.get(&path).await;
            assert_eq!(claim.status, 200);
            let names = [
                "active_duration",
                "created",
                "fencing_token",
                "metadata",
                "resource",
                "status",
                "status_history",
                "timeout",
                "ttl",
                "url",
                "user_data",
                "waiting_duration",
            ];
            let shown: Vec<_> = claim.body.as_object().unwrap().keys().collect();
            assert_eq!(shown, names);
            assert_eq!(claim.text_of("status"), status);
            assert!(claim.text_of("url").ends_with('/'));
        }
    }
}

#[tokio::test]
async fn requests_for_active_claims_return_active_duration_and_ttl() {
    let scene = Scene::start().await;
    let id = scene.claim("r", 10.0).await;
    scene.local.advance_ms(2250);
    let claim = scene.get(id).await;
    assert_eq!(claim.get("active_duration"), &json!(2.25));
    assert_eq!(claim.get("ttl"), &json!(7.75));
    assert_eq!(claim.get("waiting_duration"), &json!(0.0));
}

#[tokio::test]
async fn requests_for_waiting_claims_return_waiting_duration() {
    let scene = Scene::start().await;
    scene.claim("r", 10.0).await;
    let id = scene.claim("r", 10.0).await;
    scene.local.advance_ms(2250);
    let claim = scene.get(id).await;
    assert_eq!(claim.get("waiting_duration"), &json!(2.25));
    assert!(claim.get("active_duration").is_null());
    assert!(claim.get("ttl").is_null());
}

#[tokio::test]
async fn a_non_existent_claim_is_404() {
    let scene = Scene::start().await;
    scene.claim("r", 10.0).await;
    for id in ["2", "0", "-1", "+1", "01", "1.0", "x", "%31x", "%FF", "%zz", "99999999999999999999"]
    {
        for path in [format!("/v1/claims/{id}"), format!("/v1/claims/{id}/")] {
            let answer = scene.local.client.get(&path).await;
            assert_eq!(answer.status, 404, "{path}");
            assert!(!answer.text_of("message").is_empty(), "{path}");
            let answer = scene.send(Method::PATCH, &path, r#"{"status":"active"}"#).await;
            assert_eq!(answer.status, 404, "{path}");
        }
    }
    assert_eq!(scene.local.client.get("/v1/claims/1/x").await.status, 404);
    assert_eq!(scene.local.client.get("/v1/claims//").await.status, 404);
}
