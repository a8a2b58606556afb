//! Tests of Redis locks seen through other dialects.

use leasehold_testkit::{json, settings};

use crate::doors::redis::{DELETE, EXPIRE, Scene};

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
    // The value proves the lock, so other clients see only its start.
    for (namespace, owner) in [("redis", "m..."), ("redis-3", "y...")] {
        let seen = scene.local.client.get(&format!("/v1/namespaces/{namespace}/locks/job")).await;
        assert_eq!(seen.get("holders")[0]["owner_id"], owner, "{seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_of_another_dialect_is_in_the_way() {
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
    assert!(refused.text.contains("\"m...\""), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_of_another_dialect_is_next() {
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
        .until("a client waits", async |client| {
            client.get("/metrics").await.text.lines().any(|line| line == "leasehold_waiters 1")
        })
        .await;
    client.check(&format!("EVALSHA {DELETE} 1 job me => 1\nSET job me NX PX 60000 => nil")).await;
    assert_eq!(waiting.await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_locks_of_files_share_is_no_key() {
    let scene = Scene::with(settings(None), |settings| {
        settings.dialect.redis.namespace = "files".into();
    })
    .await;
    let mut client = scene.connect().await;
    client
        .check(
            "DEL /folder/ => -ERR \"/folder/\" is not the lock of a file or folder...
             DEL // => -ERR \"//\" is not the lock of a file or folder...
             DEL /folder => 0
             DEL / => 0",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_id_of_a_lock_of_terraform_is_not_told() {
    let scene = Scene::with(settings(None), |settings| {
        settings.dialect.redis.namespace = "terraform".into();
    })
    .await;
    let mut client = scene.connect().await;
    for (info, told) in [
        (r#"{"ID":"0123456789abcdef","Who":"ann@laptop"}"#, "ann@laptop"),
        (r#"{"ID":"0123456789abcdef"}"#, "01234567..."),
        (r#"{"ID":"12345678"}"#, "1234..."),
    ] {
        let lock: leasehold_testkit::Method = "LOCK".parse().unwrap();
        let sent = scene.local.client.send(lock, "/terraform/prod", None, info.to_owned());
        assert_eq!(sent.await.unwrap().status, 200);
        client.check(&format!("GET prod => \"held through terraform by {told}\"")).await;
        let unlock: leasehold_testkit::Method = "UNLOCK".parse().unwrap();
        let sent = scene.local.client.send(unlock, "/terraform/prod", None, String::new());
        assert_eq!(sent.await.unwrap().status, 200);
    }
}
