//! Tests of locking. Every refusal has a message, because that is all git-lfs shows.

use leasehold_testkit::{Value, folder, json, settings};

use crate::doors::lfs::{Scene, id_of, is, lock_request};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_one_users_until_it_is_unlocked() {
    let scene = Scene::new().await;
    let locked = scene.lock("alice", "sub dir/ü.bin").await;
    is(&locked, 201);
    let lock = locked.get("lock");
    assert_eq!((&lock["path"], &lock["owner"]["name"]), (&json!("sub dir/ü.bin"), &json!("alice")));
    assert!(lock["locked_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{lock}");
    let refused = scene.lock("bob", "sub dir/ü.bin").await;
    is(&refused, 409);
    let message = refused.text_of("message");
    assert!(message.starts_with("sub dir/ü.bin is locked by alice since 19"), "{message}");
    assert_eq!(refused.get("lock")["id"], lock["id"]);
    let again = scene.lock("alice", "sub dir/ü.bin").await;
    is(&again, 409);
    assert!(again.text_of("message").contains("already locked by you (alice) since"), "{again:?}");
    let id = id_of(&locked);
    let refused = scene.unlock("bob", &id, false).await;
    is(&refused, 403);
    let message = refused.text_of("message");
    assert!(message.starts_with("sub dir/ü.bin is locked by alice since"), "{message}");
    let unlocked = scene.unlock("alice", &id, false).await;
    is(&unlocked, 200);
    assert_eq!(unlocked.get("lock"), lock);
    is(&scene.unlock("alice", &id, false).await, 404);
    let locked = scene.lock("bob", "sub dir/ü.bin").await;
    is(&locked, 201);
    assert_ne!(id_of(&locked), id, "ids are never used again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn force_takes_it_away() {
    let scene = Scene::new().await;
    let id = id_of(&scene.lock("alice", "x.bin").await);
    is(&scene.unlock("bob", &id, true).await, 200);
    is(&scene.unlock("bob", &id, true).await, 404);
    is(&scene.unlock("alice", &id, false).await, 404);
    let history =
        scene.local.client.get("/v1/namespaces/lfs/locks/team%2Fapp%2Fx.bin/history").await;
    assert!(history.text.contains("git lfs unlock --force by bob"), "{history:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_of_another_dialect_is_named() {
    let scene = Scene::new().await;
    let path = "/v1/namespaces/lfs/locks/team%2Fapp%2Fx.bin";
    let acquire = json!({"owner_id": "nightly", "ttl_ms": 60_000});
    is(&scene.local.client.post(&format!("{path}/acquire"), acquire).await.unwrap(), 200);
    let refused = scene.lock("alice", "x.bin").await;
    is(&refused, 409);
    let message = refused.text_of("message");
    assert!(message.starts_with("x.bin is locked by nightly through locks since"), "{message}");
    let seen = scene.locks("?path=x.bin").await;
    let id = seen.get("locks")[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(seen.get("locks")[0]["owner"]["name"], "nightly", "{seen:?}");
    let verified = scene.send("nightly", "POST /lfs/team/app/locks/verify", json!({})).await;
    assert_eq!(verified.get("theirs")[0]["path"], "x.bin", "{verified:?}");
    is(&scene.unlock("nightly", &id, false).await, 403);
    is(&scene.unlock("alice", &id, true).await, 200);
    is(&scene.lock("alice", "x.bin").await, 201);
    let seen = scene.local.client.get(path).await;
    let metadata = &seen.get("holders")[0]["metadata"];
    assert_eq!(
        *metadata,
        json!({"repository": "team/app", "path": "x.bin", "ref": "refs/heads/main"})
    );
    // A Terraform lock has an id as its owner. The user's name is in a separate field, which the message shows.
    let scene = Scene::with(|settings| settings.dialect.terraform.namespace = "lfs".into()).await;
    let info = json!({"ID": "a35dde15-8243", "Who": "ann@laptop"});
    let line = "/terraform/team%2Fapp%2Fx.bin/lock";
    is(&scene.local.client.post(line, info).await.unwrap(), 200);
    let message = scene.lock("alice", "x.bin").await.text_of("message");
    assert!(
        message.starts_with("x.bin is locked by ann@laptop through terraform since"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_makes_no_sense_is_refused() {
    let scene = Scene::new().await;
    let long = "x".repeat(512 - "team/app/".len() + 1);
    for (line, body, status) in [
        ("POST /lfs/team/app/locks", json!({}), 400),
        ("POST /lfs/team/app/locks", json!({"path": 7}), 400),
        ("POST /lfs/team/app/locks", json!([]), 400),
        ("POST /lfs/team/app/locks", json!({"path": ""}), 422),
        ("POST /lfs/team/app/locks", json!({"path": "/etc/passwd"}), 422),
        ("POST /lfs/team/app/locks", json!({"path": "a/../b"}), 422),
        ("POST /lfs/team/app/locks", json!({"path": "a\u{0}b"}), 422),
        ("POST /lfs/team/app/locks", json!({"path": "\u{1b}[2J"}), 422),
        ("POST /lfs/team/app/locks", json!({"path": long}), 422),
        ("POST /lfs/team//app/locks", json!({"path": "x"}), 400),
        ("POST /lfs/team/%2e%2e/locks", json!({"path": "x"}), 400),
        ("POST /lfs/%FF/locks", json!({"path": "x"}), 400),
        ("POST /lfs/a%00b/locks", json!({"path": "x"}), 400),
        ("POST /lfs/team/app/locks/verify", Value::Null, 400),
        ("POST /lfs/team/app/locks/x/unlock", json!({}), 404),
        ("POST /lfs/team/app/locks/-1/unlock", json!({}), 404),
        ("POST /lfs/team/app/locks/99999999999999999999999/unlock", json!({}), 404),
        ("GET /lfs/team/app", Value::Null, 404),
        ("DELETE /lfs/team/app/locks", Value::Null, 405),
        ("GET /lfs/team/app/locks/verify", Value::Null, 405),
        ("GET /lfs/team/app/locks?limit=0", Value::Null, 400),
        ("GET /lfs/team/app/locks?limit=x", Value::Null, 400),
        ("GET /lfs/team/app/locks?cursor=x", Value::Null, 400),
    ] {
        let refused = scene.send("alice", line, body).await;
        assert_eq!(refused.status, status, "{line}: {refused:?}");
        assert!(!refused.text_of("message").is_empty(), "{line}: {refused:?}");
    }
    let repository = "r".repeat(511);
    let line = format!("POST /lfs/{repository}/locks");
    let refused = scene.send("alice", &line, json!({"path": "x"})).await;
    assert!(refused.text_of("message").contains("name of the repository"), "{refused:?}");
    let named = scene.send("\u{1b}[2J", "POST /lfs/a/locks", json!({"path": "x"})).await;
    assert_eq!(named.get("lock")["owner"]["name"], "anonymous", "{named:?}");
    let fits = &long[1..];
    is(&scene.send("alice", "POST /lfs/team/app/locks", json!({"path": fits})).await, 201);
    assert!(scene.locks("").await.text.contains(fits));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_is_its_name_however_it_is_written() {
    let scene = Scene::new().await;
    let id = id_of(&scene.lock("alice", "x.bin").await);
    for path in
        ["/lfs/team/app.git/info/lfs/locks", "/lfs/team%2Fapp/locks", "/lfs/team/app.git/locks"]
    {
        let seen = scene.send("", &format!("GET {path}"), Value::Null).await;
        assert_eq!(seen.get("locks")[0]["id"], *id, "{path}: {seen:?}");
    }
    // A lock of another repository does not appear, even if one repository's name is a prefix of the other's.
    let seen = scene.send("", "GET /lfs/team/locks", Value::Null).await;
    assert_eq!(*seen.get("locks"), json!([]), "{seen:?}");
    for line in ["POST /lfs/team/locks/ID/unlock", "POST /lfs/other/locks/ID/unlock"] {
        let line = line.replace("ID", &id);
        is(&scene.send("alice", &line, json!({"force": true})).await, 404);
    }
    is(&scene.send("bob", "POST /lfs/team/locks", lock_request("app/x.bin")).await, 409);
    is(&scene.unlock("alice", &id, false).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_last_for_good_and_survive_a_restart() {
    let data = folder();
    let scene = Scene::with(|given| *given = settings(Some(data.path()))).await;
    let id = id_of(&scene.lock("alice", "x.bin").await);
    scene.local.advance_ms(10 * 365 * 24 * 3_600_000);
    is(&scene.lock("bob", "x.bin").await, 409);
    scene.local.stop().await;
    let scene = Scene::with(|given| *given = settings(Some(data.path()))).await;
    is(&scene.lock("bob", "x.bin").await, 409);
    is(&scene.unlock("alice", &id, false).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_a_name_is_anonymous() {
    let scene = Scene::new().await;
    is(&scene.lock("", "x.bin").await, 201);
    let again = scene.lock("", "x.bin").await;
    is(&again, 409);
    let message = again.text_of("message");
    assert!(message.starts_with("x.bin is locked by anonymous since"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_long_is_named_as_git_lfs_knows_it() {
    let scene = Scene::new().await;
    let refused = scene.lock(&"u".repeat(300), "x.bin").await;
    is(&refused, 400);
    let message = refused.text_of("message");
    assert!(message.starts_with("the user name: must have"), "{message}");
}
