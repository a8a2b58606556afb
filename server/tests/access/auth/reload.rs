//! Tests that changed auth files take effect while the server runs.

use std::time::{Duration, Instant};

use leasehold_testkit::{Value, json};

use crate::auth::{RULES, Scene, acquire, write_keys};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_key_fails_at_once_and_its_waits_and_streams_end() {
    let mut scene = Scene::new().await;
    assert_eq!(scene.send("other", "POST /v1/locks/x/acquire", acquire("o")).await.status, 200);
    let taker = scene.proof("taker").remove(0);
    let headers = [(taker.0, taker.1.as_str())];
    let wait = json!({"owner_id": "w", "ttl_ms": 60_000, "wait_ms": 60_000}).to_string();
    let locks = json!([{"lock_name": "x"}]);
    let group = json!({"owner_id": "g", "ttl_ms": 60_000, "wait_ms": 60_000, "locks": locks});
    let group = group.to_string();
    let scene_ref = &scene;
    let waiting = async { scene_ref.status(&headers, "POST /v1/locks/x/acquire", &wait).await };
    let together = async { scene_ref.status(&headers, "POST /v1/acquire", &group).await };
    let events = async {
        let sent = scene_ref.send("taker", "GET /v1/events", Value::Null).await;
        sent.status
    };
    let keys = scene.keys.iter().filter(|(name, _)| *name != "taker");
    let kept: std::collections::BTreeMap<_, _> = keys
        .map(|(name, key)| {
            let key = leasehold_auth::NewKey {
                id: key.id.clone(),
                text: key.text.clone(),
                sha256: key.sha256.clone(),
            };
            (name.clone(), key)
        })
        .collect();
    let revoking = async {
        scene_ref
            .local
            .until("both wait", async |_| {
                let lock = scene_ref.send("admin", "GET /v1/locks/x", Value::Null).await;
                lock.body["n_waiting"] == 2
            })
            .await;
        write_keys(scene_ref.file("keys.toml"), &kept, "");
        scene_ref.local.server.reload();
        Instant::now()
    };
    let (waiting, together, events, revoked) = tokio::join!(waiting, together, events, revoking);
    assert_eq!((waiting, together, events), (401, 401, 200));
    assert!(revoked.elapsed() < Duration::from_secs(30), "{:?}", revoked.elapsed());
    assert_eq!(scene.send("taker", "GET /v1/locks/x", Value::Null).await.status, 401);
    let lock = scene.send("admin", "GET /v1/locks/x", Value::Null).await;
    assert_eq!(lock.body["n_waiting"].as_u64().unwrap_or(0), 0, "they have left the queue");
    scene.keys = kept;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_file_leaves_the_old_policy_and_is_told_of() {
    let scene = Scene::new().await;
    let keys = std::fs::read_to_string(scene.file("keys.toml")).expect("a file");
    let write = |file: &str, text: &str| std::fs::write(scene.file(file), text).expect("a file");
    for (file, bad) in [
        ("auth.toml", ""),
        ("auth.toml", "version = 1\n[[rule]]\nname = 7\n"),
        ("auth.toml", "version ="),
        ("keys.toml", ""),
        ("keys.toml", "# nothing\n"),
    ] {
        write(file, bad);
        scene.local.server.reload();
        scene
            .local
            .until("the age of the policy is shown", async |_| {
                scene.local.advance_ms(3000);
                scene.local.server.reload();
                let metrics = scene.send("admin", "GET /metrics", Value::Null).await.text;
                metrics.lines().any(|line| {
                    line.starts_with("leasehold_auth_stale_seconds") && !line.ends_with(" 0")
                })
            })
            .await;
        assert_eq!(scene.send("reader", "GET /v1/locks/x", Value::Null).await.status, 200);
        assert_eq!(scene.send("", "GET /v1/locks/x", Value::Null).await.status, 401);
        write("auth.toml", RULES);
        write("keys.toml", &keys);
        scene.local.server.reload();
        scene
            .local
            .until("all is well again", async |_| {
                scene.local.server.reload();
                let metrics = scene.send("admin", "GET /metrics", Value::Null).await.text;
                metrics.lines().any(|line| {
                    line.starts_with("leasehold_auth_stale_seconds") && line.ends_with(" 0")
                })
            })
            .await;
    }
    std::fs::remove_file(scene.file("auth.toml")).expect("a file");
    scene.local.server.reload();
    assert_eq!(
        scene.send("", "GET /v1/locks/x", Value::Null).await.status,
        401,
        "no reload turns it off"
    );
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_loses_a_right_can_still_release() {
    let scene = Scene::new().await;
    let held = scene.send("taker", "POST /v1/locks/x/acquire", acquire("o")).await.body;
    let proof = json!({"owner_id": "o", "lease_id": held["lease_id"], "fencing_token": held["fencing_token"]});
    let rules = RULES.replace("\"key:taker\", ", "");
    std::fs::write(scene.file("auth.toml"), rules).expect("a file");
    scene.local.server.reload();
    scene
        .local
        .until("the right is gone", async |_| {
            scene.send("taker", "POST /v1/locks/y/acquire", acquire("o")).await.status == 403
        })
        .await;
    let mut renew = proof.clone();
    renew["extend_by_ms"] = json!(1000);
    assert_eq!(scene.send("taker", "POST /v1/locks/x/renew", renew).await.status, 403);
    assert_eq!(scene.send("taker", "POST /v1/locks/x/release", proof).await.status, 200);
    scene.stop().await;
}
