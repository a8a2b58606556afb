//! The same locks by other dialects.

use leasehold_testkit::json;

use crate::{DELETE, EXPIRE, Scene};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_is_a_namespace() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await;
    client.check("SET job me NX PX 60000 => OK\nSELECT 3 => OK\nGET job => nil").await;
    client.check("SET job you NX PX 60000 => OK\nSELECT 0 => OK\nGET job => \"me\"").await;
    client
        .check("SELECT 16 => -ERR DB index is out of range: there are 16 (redis-databases)")
        .await;
    client.check("GET job => \"me\"").await;
    for (namespace, owner) in [("redis", "me"), ("redis-3", "you")] {
        let seen = scene.local.client.get(&format!("/v1/namespaces/{namespace}/locks/job")).await;
        assert_eq!(seen.get("holders")[0]["owner_id"], owner, "{seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_it_by_another_dialect_is_in_the_way() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await;
    let path = "/v1/namespaces/redis/locks/job";
    let body = json!({"owner_id": "ann", "ttl_ms": 60_000});
    let held = scene.local.client.post(&format!("{path}/acquire"), body.clone()).await.unwrap();
    assert_eq!(held.status, 200);
    client
        .check(&format!(
            r#"
            SET job me NX PX 1000 => nil
            SET job ann NX PX 1000 => nil
            GET job => "held through locks by ann"
            EXISTS job => 1
            PTTL job => 60000
            EVALSHA {DELETE} 1 job ann => 0
            EVALSHA {EXPIRE} 1 job ann 5 => 0
            PEXPIRE job 5 => -ERR this lock is held through locks, where its holder renews it
            DEL job => 1
            SET job me NX PX 1000 => OK
            "#
        ))
        .await;
    let refused = scene.local.client.post(&format!("{path}/acquire"), body).await.unwrap();
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.text.contains("\"me\""), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_by_another_dialect_is_next() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await;
    client.check("SET job me NX PX 60000 => OK").await;
    let waiting = {
        let client = scene.local.client.clone();
        let body = json!({"owner_id": "ann", "ttl_ms": 60_000, "wait_ms": 60_000});
        let path = "/v1/namespaces/redis/locks/job/acquire";
        tokio::spawn(async move { client.post(path, body).await.unwrap() })
    };
    scene
        .local
        .until("somebody waits", async |client| {
            client.get("/metrics").await.text.lines().any(|line| line == "leasehold_waiters 1")
        })
        .await;
    client.check(&format!("EVALSHA {DELETE} 1 job me => 1\nSET job me NX PX 60000 => nil")).await;
    assert_eq!(waiting.await.unwrap().status, 200);
}
