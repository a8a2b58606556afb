//! Tests that claims survive a restart.

use leasehold_testkit::{Local, folder, json, settings};

use crate::dialects::claims::Scene;

#[tokio::test]
async fn a_restart_keeps_claims_as_they_were() {
    let data = folder();
    let scene = Scene { local: Local::in_folder(data.path()).await };
    let active = scene.claim("r", 10.0).await;
    let body = json!({"resource": "r", "timeout": 20.0, "metadata": {"a": 1}});
    let waiting = crate::dialects::claims::id(&scene.post(body).await);
    let aborted = scene.in_status("aborted").await;
    let withdrawn = scene.claim("r", 10.0).await;
    scene.set(withdrawn, "withdrawn").await;
    scene.local.advance_ms(4000);
    let mut before = Vec::new();
    for id in [active, waiting, aborted, withdrawn] {
        before.push(scene.get(id).await.body);
    }
    let clock = scene.local.clock.clone();
    scene.local.stop().await;

    let local = Local::start_at(settings(Some(data.path())), clock).await;
    let scene = Scene { local };
    for (id, mut before) in [active, waiting, aborted, withdrawn].into_iter().zip(before) {
        let after = scene.get(id).await.body;
        // The port is different after the restart.
        before["url"] = after["url"].clone();
        assert_eq!(after, before);
    }
    scene.local.advance_ms(6000);
    assert_eq!(scene.status(active).await, "expired");
    assert_eq!(scene.get(waiting).await.get("ttl"), &json!(20.0));
    let next = scene.claim("s", 10.0).await;
    assert_eq!(next, withdrawn + 1, "ids go on");
}
