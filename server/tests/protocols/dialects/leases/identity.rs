//! Tests of the caller's identity (LS-AUTH-001). Without authentication, headers stand in for the credential.

use leasehold_testkit::json;

use crate::dialects::leases::{Scene, asking, check_error, check_lease};

const AS_A: (&str, &str) = ("x-owner-id", "a");
const AS_B: (&str, &str) = ("x-owner-id", "b");

#[tokio::test]
async fn ls_auth_001_an_identified_client_acts_only_for_itself() {
    let scene = Scene::new().await;
    let path = "/leases/acquire";
    let refused = scene.post_as(path, AS_B, asking("db", "a", "r1")).await;
    check_error(&refused, 401, "OWNER_TOKEN_MISMATCH");
    let lease = scene.post_as(path, AS_A, asking("db", "a", "r1")).await;
    check_lease(&lease, 201, "ACTIVE");
    let id = lease.text_of("lease_id");
    let renew = json!({"request_id": "r2", "owner_id": "a", "ttl_seconds": 30});
    let release = json!({"request_id": "r3", "owner_id": "a"});
    for (call, body, status) in [("renew", renew, "ACTIVE"), ("release", release, "RELEASED")] {
        let path = format!("/leases/{id}/{call}");
        let refused = scene.post_as(&path, AS_B, body.clone()).await;
        check_error(&refused, 401, "OWNER_TOKEN_MISMATCH");
        check_lease(&scene.post_as(&path, AS_A, body).await, 200, status);
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_who_asks_it() {
    let scene = Scene::new().await;
    let mut ask = asking("db", "a", "r1");
    ask["ttl_seconds"] = 9.into();
    check_error(&scene.post_as("/leases/acquire", AS_B, ask).await, 400, "INVALID_TTL");
    let ask = asking("", "a", "r1");
    check_error(&scene.post_as("/leases/acquire", AS_B, ask).await, 400, "INVALID_REQUEST");
    let ask = json!({"request_id": "r".repeat(129), "owner_id": "a"});
    let path = "/leases/nonsense/release";
    check_error(&scene.post_as(path, AS_B, ask).await, 400, "INVALID_REQUEST");
    let ask = json!({"request_id": "r", "owner_id": "a"});
    check_error(&scene.post_as(path, AS_B, ask).await, 401, "OWNER_TOKEN_MISMATCH");
    let ask = json!({"tenant_id": "t"});
    check_error(&scene.post("/locks/db/force-release", ask).await, 400, "INVALID_REQUEST");
}

#[tokio::test]
async fn only_an_admin_releases_by_force() {
    let scene = Scene::new().await;
    scene.acquire("db", "a", "r1").await;
    let body = json!({"tenant_id": "t", "actor": "root", "reason": "host is gone"});
    let path = "/locks/db/force-release";
    check_error(&scene.post(path, body.clone()).await, 403, "FORBIDDEN");
    for role in ["admin", "USER", "", "ADMIN "] {
        let answer = scene.post_as(path, ("x-role", role), body.clone()).await;
        let is_refused = role.trim() != "ADMIN";
        assert_eq!(answer.status == 403, is_refused, "{role:?}: {}", answer.text);
    }
}
