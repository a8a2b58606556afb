//! Tests of the operator's settings for tenants.

use leasehold_testkit::{Local, json, settings};

use crate::dialects::leases::{Scene, check_error, check_lease};

async fn with_prefix(prefix: &str) -> Scene {
    let mut settings = settings(None);
    settings.dialect.leases.namespace_prefix = prefix.into();
    Scene { local: Local::start(settings).await }
}

#[tokio::test]
async fn a_prefix_keeps_tenants_away_from_the_other_dialects_namespaces() {
    let scene = with_prefix("tenant/").await;
    let lease = scene.acquire("db", "a", "r1").await;
    check_lease(&lease, 201, "ACTIVE");
    assert_eq!(lease.text_of("tenant_id"), "t", "tenants do not see it");
    let client = &scene.local.client;
    assert_eq!(client.get("/v1/namespaces/t/locks/db").await.get("held"), false);
    let native = client.get("/v1/namespaces/tenant%2Ft/locks/db").await;
    assert_eq!(native.get("held"), true);
    let state = scene.look("db").await;
    assert_eq!(state.text_of("tenant_id"), "t");
    assert_eq!(state.get("active_lease")["tenant_id"], "t");
    let renewed = scene.renew(&lease, "a", "r2").await;
    check_lease(&renewed, 200, "ACTIVE");
    assert_eq!(renewed.text_of("tenant_id"), "t");
    let body = json!({"tenant_id": "t", "actor": "root"});
    let taken = scene.post_as("/locks/db/force-release", ("x-role", "ADMIN"), body).await;
    assert_eq!(taken.get("active_lease")["tenant_id"], "t", "{}", taken.text);
    assert_eq!(client.get("/v1/namespaces/tenant%2Ft/locks/db").await.get("held"), false);
}

#[tokio::test]
async fn a_tenants_name_and_the_prefix_together_are_bounded() {
    let scene = with_prefix("tenant/").await;
    let ask = |n: usize| {
        let mut ask = crate::dialects::leases::asking("db", "a", "r");
        ask["tenant_id"] = "x".repeat(n).into();
        ask
    };
    check_lease(&scene.post("/leases/acquire", ask(121)).await, 201, "ACTIVE");
    check_error(&scene.post("/leases/acquire", ask(122)).await, 400, "INVALID_REQUEST");
}
