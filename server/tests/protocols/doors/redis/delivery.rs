//! Tests that a lock belongs to its client once the operating system has accepted the response, and that otherwise it
//! is released.

use leasehold_testkit::settings;

use crate::doors::redis::{Scene, request};

/// More bytes than the buffers of a socket hold.
const HUGE_BYTES: usize = 32 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undelivered_lock_is_released() {
    let scene = Scene::with(settings(None), |settings| {
        settings.dialect.redis.command_bytes_max = 2 * HUGE_BYTES;
    })
    .await;
    let mut client = scene.connect().await;
    client.check("SET told me NX PX 60000 => OK").await;
    let mut bytes = request(&format!("PING {}", "a".repeat(HUGE_BYTES)));
    for n in 0..1000 {
        bytes.extend(request(&format!("SET k{n} me NX PX 60000")));
    }
    client.send(&bytes).await;
    let is_held = async |lock: &str| {
        let seen = scene.local.client.get(&format!("/v1/namespaces/redis/locks/{lock}")).await;
        seen.get("held") == true
    };
    scene.local.until("k0 is granted", async |_| is_held("k0").await).await;
    drop(client);
    scene.local.until("k0 is released", async |_| !is_held("k0").await).await;
    assert!(is_held("told").await);
}
