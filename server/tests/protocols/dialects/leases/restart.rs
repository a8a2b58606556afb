//! Tests that leases, tokens, request ids and owners survive a restart.

use leasehold_testkit::{Local, folder, settings};

use crate::dialects::leases::{Scene, check_error, check_lease};

/// LS-INV-002 also holds across a restart.
#[tokio::test]
async fn ls_inv_002_tokens_and_replays_go_on_over_a_restart() {
    let data = folder();
    let scene = Scene { local: Local::in_folder(data.path()).await };
    let clock = scene.local.clock.clone();
    let over = scene.acquire("db", "a", "r1").await;
    check_lease(&scene.release(&over, "a", "r2").await, 200, "RELEASED");
    let held = scene.acquire("db", "b", "r3").await;
    check_lease(&scene.renew(&held, "b", "r4").await, 200, "ACTIVE");
    scene.local.stop().await;

    let local = Local::start_at(settings(Some(data.path())), clock).await;
    let scene = Scene { local };
    check_error(&scene.acquire("db", "c", "r5").await, 409, "LOCK_HELD");
    check_error(&scene.acquire("db", "a", "r1").await, 409, "LEASE_NOT_ACTIVE");
    let replayed = scene.release(&over, "a", "r2").await;
    check_lease(&replayed, 200, "RELEASED");
    assert_eq!(replayed.get("idempotency_key"), "r1");
    let same = scene.acquire("db", "b", "r3").await;
    assert_eq!((same.get("lease_id"), same.number("version")), (held.get("lease_id"), 2));
    let renewed = scene.renew(&held, "b", "r4").await;
    assert_eq!(renewed.number("version"), 2, "{}", renewed.text);
    check_lease(&scene.release(&held, "b", "r6").await, 200, "RELEASED");
    assert_eq!(scene.acquire("db", "c", "r5").await.number("fencing_token"), 3);
    scene.local.stop().await;
}
