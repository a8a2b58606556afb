//! Tests of locking: a refusal names the holder in a way that every version of Terraform prints.

use leasehold_testkit::{json, settings};

use crate::doors::shown;
use crate::doors::terraform::{A, B, Scene, info};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_one_clients_until_it_gives_it_back() {
    let scene = Scene::new().await;
    for (lock, unlock) in [
        ("LOCK /terraform/prod", "UNLOCK /terraform/prod"),
        ("POST /terraform/prod/lock", "DELETE /terraform/prod/lock"),
        ("PUT /terraform/prod/lock", "UNLOCK /terraform/prod/lock"),
        ("LOCK /terraform/team%2Fapp", "UNLOCK /terraform/team%2Fapp"),
    ] {
        scene.is(&scene.send(lock, info(A, "ann@laptop")).await, 200);
        // The client might not have received the first response.
        scene.is(&scene.send(lock, info(A, "ann@laptop")).await, 200);
        let refused = scene.send(lock, info(B, "bob@desk")).await;
        scene.is(&refused, 423);
        let id = refused.text_of("ID");
        assert!(id.starts_with("a35dde15... (held by ann@laptop since 19"), "{id}");
        assert!(!id.contains(A), "the id is a proof");
        assert_eq!(refused.text_of("Who"), "ann@laptop");
        assert_eq!(refused.text_of("Operation"), "OperationTypeApply");
        let refused = scene.send(unlock, info(B, "bob@desk")).await;
        scene.is(&refused, 409);
        scene.is(&scene.send(unlock, info(A, "ann@laptop")).await, 200);
        // An unlock of a free lock succeeds, because the lock is free as the client wanted.
        scene.is(&scene.send(unlock, info(A, "ann@laptop")).await, 200);
        scene.is(&scene.send(lock, info(B, "bob@desk")).await, 200);
        scene.is(&scene.send(unlock, info(B, "bob@desk")).await, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn force_unlock_sends_no_id() {
    let scene = Scene::new().await;
    scene.is(&scene.send("UNLOCK /terraform/prod", "").await, 200);
    scene.is(&scene.send("LOCK /terraform/prod", info(A, "ann@laptop")).await, 200);
    scene.is(&scene.send("UNLOCK /terraform/prod", "").await, 200);
    scene.is(&scene.send("LOCK /terraform/prod", info(B, "bob@desk")).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_lasts_for_good_or_as_long_as_was_said() {
    let scene = Scene::new().await;
    scene.is(&scene.send("LOCK /terraform/prod", info(A, "ann@laptop")).await, 200);
    scene.local.advance_ms(10 * 365 * 24 * 3_600_000);
    scene.is(&scene.send("LOCK /terraform/prod", info(B, "bob@desk")).await, 423);
    let scene = Scene::with(settings(None), |settings| {
        settings.dialect.terraform.lock_ttl = Some(leasehold_core::Span::from_secs(60));
    })
    .await;
    scene.is(&scene.send("LOCK /terraform/prod", info(A, "ann@laptop")).await, 200);
    scene.local.advance_ms(50_000);
    // A write renews it.
    scene.is(&scene.send(&format!("POST /terraform/prod?ID={A}"), "{}").await, 200);
    scene.local.advance_ms(50_000);
    scene.is(&scene.send("LOCK /terraform/prod", info(B, "bob@desk")).await, 423);
    scene.local.advance_ms(10_000);
    scene.is(&scene.send("LOCK /terraform/prod", info(B, "bob@desk")).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_of_another_dialect_is_named() {
    let scene = Scene::new().await;
    let path = "/v1/namespaces/terraform/locks/prod/acquire";
    let body = json!({"owner_id": "nightly", "ttl_ms": 60_000});
    let held = scene.local.client.post(path, body.clone()).await.unwrap();
    scene.is(&held, 200);
    let refused = scene.send("LOCK /terraform/prod", info(A, "ann@laptop")).await;
    scene.is(&refused, 423);
    let id = refused.text_of("ID");
    assert!(id.starts_with("held by nightly through locks since "), "{id}");
    assert_eq!(
        (refused.text_of("Who"), refused.text_of("Operation")),
        ("nightly".into(), "locks".into())
    );
    // Terraform cannot end a lock that another dialect granted.
    scene.is(&scene.send("UNLOCK /terraform/prod", "").await, 409);
    scene.is(&scene.send("POST /terraform/prod", "{}").await, 423);
    let path = "/v1/namespaces/terraform/locks/prod";
    let proof = json!({
        "owner_id": "nightly", "lease_id": held.get("lease_id"), "fencing_token": held.get("fencing_token"),
    });
    let released = scene.local.client.post(&format!("{path}/release"), proof).await.unwrap();
    scene.is(&released, 200);
    scene.is(&scene.send("LOCK /terraform/prod", info(A, "ann@laptop")).await, 200);
    let seen = scene.get(path).await;
    assert_eq!(seen.get("holders")[0]["metadata"]["Who"], "ann@laptop", "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_makes_no_sense_is_refused() {
    let scene = Scene::new().await;
    for (line, body, status) in [
        ("LOCK /terraform/prod", "", 400),
        ("LOCK /terraform/prod", "{", 400),
        ("LOCK /terraform/prod", "{}", 400),
        ("LOCK /terraform/prod", r#"{"ID":""}"#, 400),
        ("LOCK /terraform/prod", r#"{"ID":7}"#, 400),
        ("UNLOCK /terraform/prod", "x", 400),
        ("LOCK /terraform/%FF", r#"{"ID":"a"}"#, 400),
        ("POST /terraform/prod", "", 400),
        ("POST /terraform/prod?ID=%FF", "{}", 400),
        ("POST /terraform/prod?ID=a&ID=b", "{}", 400),
        ("DELETE /terraform/prod", "", 405),
        ("GET /terraform/prod/lock", "", 405),
        ("GET /terraform/prod", "", 404),
        ("GET /terraform/prod/versions", "", 404),
        ("GET /terraform/prod/versions/x", "", 400),
        ("GET /terraform/prod/versions/1", "", 404),
        ("POST /terraform/prod/versions/1/restore", "", 404),
        ("GET /terraform/a/b/c", "", 404),
    ] {
        let refused = scene.send(line, body).await;
        assert_eq!(refused.status, status, "{line}: {refused:?}");
    }
    let long = format!("LOCK /terraform/{}", "x".repeat(513));
    scene.is(&scene.send(&long, info(A, "a")).await, 400);
    scene.is(&scene.send("LOCK /terraform/prod", info(&"i".repeat(257), "a")).await, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_and_states_survive_a_restart() {
    let data = leasehold_testkit::folder();
    let scene = Scene::with(settings(Some(data.path())), |_| {}).await;
    scene.is(&scene.send("LOCK /terraform/prod", info(A, "ann@laptop")).await, 200);
    scene.is(&scene.send(&format!("POST /terraform/prod?ID={A}"), "{\"serial\":1}").await, 200);
    scene.local.stop().await;
    let scene = Scene::with(settings(Some(data.path())), |_| {}).await;
    assert_eq!(scene.get("/terraform/prod").await.text, "{\"serial\":1}");
    scene.is(&scene.send("LOCK /terraform/prod", info(B, "bob@desk")).await, 423);
    scene.is(&scene.send(&format!("POST /terraform/prod?ID={A}"), "{\"serial\":2}").await, 200);
    scene.is(&scene.send("UNLOCK /terraform/prod", info(A, "ann@laptop")).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_reaches_the_terminals_of_others() {
    let scene = Scene::new().await;
    for (id, who, field) in
        [("a\u{1b}[2J", "ann", "ID"), (A, "ann\nroot", "Who"), (A, "\u{9b}2J", "Who")]
    {
        let refused = scene.send("LOCK /terraform/prod", info(id, who)).await;
        scene.is(&refused, 400);
        let why = format!("{field}: must not contain control characters");
        assert!(refused.text_of("error").contains(&why), "{refused:?}");
    }
    // In other dialects, an owner name can contain any characters.
    let path = "/v1/namespaces/terraform/locks/prod/acquire";
    let held = json!({"owner_id": "ci\u{1b}[2J", "ttl_ms": 60_000});
    scene.is(&scene.local.client.post(path, held).await.unwrap(), 200);
    let refused = scene.send("LOCK /terraform/prod", info(A, "ann")).await;
    scene.is(&refused, 423);
    assert_eq!(refused.text_of("Who"), "ci\u{fffd}[2J");
    assert!(!refused.text_of("ID").contains('\u{1b}'), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_long_is_named_as_terraform_knows_it() {
    let scene = Scene::new().await;
    let long = "x".repeat(600);
    for (state, id, who, told) in [
        ("prod", &*"i".repeat(300), "ann", "ID: must have"),
        ("prod", A, &*"w".repeat(20_000), "LockInfo: must have at most"),
        (&*long, A, "ann", "the name of the state: must have"),
    ] {
        let refused = scene.send(&format!("LOCK /terraform/{state}"), info(id, who)).await;
        scene.is(&refused, 400);
        assert!(refused.text_of("error").starts_with(told), "{refused:?}");
    }
}

#[tokio::test]
async fn the_whole_id_of_a_lock_is_shown_nowhere() {
    let scene = Scene::new().await;
    let id = "a35dde15-8243-6cfe-3585-643f541c206f";
    scene.is(&scene.send("LOCK /terraform/prod", info(id, "ann@laptop")).await, 200);
    let taken = json!({"owner_id": "nightly", "ttl_ms": 60_000}).to_string();
    let acquire = "POST /v1/namespaces/terraform/locks/prod/acquire";
    let mut shown = vec![("an acquire", scene.send(acquire, taken).await)];
    for path in [
        "/v1/namespaces/terraform/locks/prod",
        "/v1/namespaces/terraform/locks",
        "/v1/namespaces/terraform/history",
        "/console",
        "/console/lock?namespace=terraform&name=prod",
        "/console?q=a35dde15",
    ] {
        shown.push((path, scene.get(path).await));
    }
    let revoke = "POST /v1/namespaces/terraform/locks/prod/revoke";
    let reason = json!({"reason": "test"}).to_string();
    shown.push(("a revocation", scene.send(revoke, reason).await));
    for (what, answer) in &shown {
        assert!(answer.text.contains("a35dde15..."), "{what}: {answer:?}");
        assert!(!answer.text.contains("643f541c206f"), "{what}: {answer:?}");
    }
    // The console's search does not match the hidden part of the id.
    scene.is(&scene.send("LOCK /terraform/prod", info(id, "ann@laptop")).await, 200);
    for (part, is_found) in [("a35dde15", true), ("a35dde15-8", false), ("643f541c206f", false)] {
        let page = scene.get(&format!("/console?q={part}")).await.text;
        assert_eq!(page.contains("name=prod"), is_found, "{part}: {page}");
    }
}

#[tokio::test]
async fn no_other_dialect_shows_the_whole_id_of_a_lock() {
    let (who, secret) = ("ann@laptop", "643f541c206f");
    let held = async |namespace: &str, state: &str| {
        let scene = Scene::with(settings(None), |settings| {
            settings.dialect.terraform.namespace = namespace.into();
        })
        .await;
        scene.is(&scene.send("PUT /dav/f.txt", "x").await, 201);
        scene.is(&scene.send(&format!("LOCK /terraform/{state}"), info(A, who)).await, 200);
        scene
    };
    let names = ["a35dde15...", who];
    let scene = held("default", "prod").await;
    shown::check(&shown::by_name(&scene.local, "default", "prod").await, &names, secret);
    let scene = held("files", "%2Ff.txt").await;
    shown::check(&shown::by_file(&scene.local, "/f.txt").await, &names, secret);
    let scene = held("lfs", "team%2Fapp%2Fx").await;
    shown::check(&shown::by_repository(&scene.local, "team/app", "x").await, &names, secret);
}
