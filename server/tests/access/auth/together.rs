//! Tests that ending leases that wait as a group needs the right on each of their locks.

use leasehold_testkit::{Value, json};

use crate::auth::{NAMES, RULES, Scene};

const HALF: &str = r#"
[[rule]]
name = "half"
who = ["key:nothing"]
may = ["revoke"]
namespaces = ["default"]
locks = ["a"]
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_wait_is_ended_only_with_the_right_on_each_lock() {
    let scene = Scene::with(&format!("{RULES}{HALF}"), &NAMES, |_| {}).await;
    let hold = json!({"owner_id": "o", "ttl_ms": 600_000});
    for lock in ["a", "b"] {
        let line = format!("POST /v1/locks/{lock}/acquire");
        assert_eq!(scene.send("other", &line, hold.clone()).await.status, 200);
    }
    let locks = json!([{"lock_name": "a"}, {"lock_name": "b"}]);
    let all = json!({"owner_id": "w", "ttl_ms": 60_000, "wait_ms": 600_000, "locks": locks});
    let n_waiting = async || {
        let lock = scene.send("admin", "GET /v1/locks/b", Value::Null).await;
        lock.body["n_waiting"].as_u64().unwrap_or(0)
    };
    let story = async {
        scene.local.until("they wait", async |_| n_waiting().await == 1).await;
        let revoke = json!({"owner": "w", "reason": "r"});
        let half = scene.send("nothing", "POST /v1/revoke", revoke.clone()).await;
        assert_eq!((half.status, half.number("n_revoked")), (200, 0), "{half:?}");
        assert_eq!(n_waiting().await, 1);
        let whole = scene.send("revoker", "POST /v1/revoke", revoke).await;
        assert_eq!((whole.status, whole.number("n_revoked")), (200, 2), "{whole:?}");
        assert_eq!(whole.body["revoked"][0]["principal"], "key:taker", "{whole:?}");
    };
    let (waited, ()) = tokio::join!(scene.send("taker", "POST /v1/acquire", all), story);
    assert_eq!(waited.status, 409, "{waited:?}");
    assert_eq!(n_waiting().await, 0);
    scene.stop().await;
}
