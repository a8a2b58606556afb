//! Tests that a waiter leaves the queue and gets an error when its key is revoked or its right is removed.

use std::time::{Duration, Instant};

use leasehold_testkit::{Value, json};

use crate::auth::idp::{Idp, Key, NOW};
use crate::auth::token::LOOK;
use crate::auth::{RULES, Scene, acquire};

/// How the auth files change while a client waits.
#[derive(Clone, Copy, Debug)]
enum Change {
    KeyRevoked,
    RightRemoved,
}

impl Change {
    fn make(self, scene: &Scene) {
        match self {
            Change::KeyRevoked => scene.revoke("taker"),
            Change::RightRemoved => {
                let rules = RULES.replace("\"key:taker\", ", "")
                    + "[[rule]]\nname = \"looks\"\nwho = [\"key:taker\"]\nmay = [\"read\"]\n"
                    + "namespaces = [\"default\"]\n";
                std::fs::write(scene.file("auth.toml"), rules).expect("a file");
            }
        }
        scene.local.server.reload();
    }

    fn status(self) -> u16 {
        match self {
            Change::KeyRevoked => 401,
            Change::RightRemoved => 403,
        }
    }
}

async fn n_waiting(scene: &Scene, lock: &str) -> u64 {
    let lock = scene.send("admin", &format!("GET /v1/locks/{lock}"), Value::Null).await;
    lock.body["n_waiting"].as_u64().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_could_be_come_back_to_ends_too() {
    for change in [Change::KeyRevoked, Change::RightRemoved] {
        let scene = Scene::new().await;
        assert_eq!(scene.send("other", "POST /v1/locks/x/acquire", acquire("o")).await.status, 200);
        let wait = |more: Value| {
            let mut wait = json!({"owner_id": "w", "ttl_ms": 60_000, "wait_ms": 60_000});
            for (name, value) in more.as_object().expect("members") {
                wait[name] = value.clone();
            }
            wait
        };
        let one = wait(json!({"request_id": "r1"}));
        let locks = json!([{"lock_name": "x"}, {"lock_name": "y"}]);
        let all = wait(json!({"request_id": "r2", "locks": locks}));
        let revoking = async {
            scene.local.until("both wait", async |_| n_waiting(&scene, "x").await == 2).await;
            change.make(&scene);
            Instant::now()
        };
        let (one, all, changed) = tokio::join!(
            scene.send("taker", "POST /v1/locks/x/acquire", one),
            scene.send("taker", "POST /v1/acquire", all),
            revoking
        );
        assert!(changed.elapsed() < Duration::from_secs(30), "{change:?}: {:?}", changed.elapsed());
        assert_eq!((one.status, all.status), (change.status(), change.status()), "{change:?}");
        assert_eq!(n_waiting(&scene, "x").await, 0, "{change:?}: no place is kept");
        assert_eq!(n_waiting(&scene, "y").await, 0, "{change:?}");
        scene.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_waits_is_over() {
    for change in [Change::KeyRevoked, Change::RightRemoved] {
        let scene = Scene::new().await;
        let claim = json!({"resource": "x", "timeout": 600});
        let held = scene.send("other", "POST /v1/claims", claim.clone()).await;
        assert_eq!(held.status, 201);
        let waits = scene.send("taker", "POST /v1/claims", claim.clone()).await;
        assert_eq!(waits.status, 202, "{waits:?}");
        let kept = scene.send("admin", "POST /v1/claims", claim).await;
        let path = |claim: &leasehold_testkit::Response| {
            let url = claim.text_of("url");
            url[url.find("/v1/").expect("an address")..].to_owned()
        };
        let look = format!("GET {}?wait=60", path(&waits));
        let (looked, ()) = tokio::join!(scene.send("taker", &look, Value::Null), async {
            change.make(&scene);
        });
        // A client that may still read the claim sees that it has ended.
        match change {
            Change::KeyRevoked => assert_eq!(looked.status, 401, "{looked:?}"),
            Change::RightRemoved => assert_eq!(looked.text_of("status"), "revoked", "{looked:?}"),
        }
        let look = format!("GET {}", path(&waits));
        scene
            .local
            .until("the claim has ended", async |_| {
                scene.send("admin", &look, Value::Null).await.text_of("status") == "revoked"
            })
            .await;
        // The lock goes to the next waiter, not to the ended claim.
        let release = json!({"status": "released"});
        let released = scene.send("other", &format!("PATCH {}", path(&held)), release).await;
        assert_eq!(released.status, 204);
        let next = scene.send("admin", &format!("GET {}", path(&kept)), Value::Null).await;
        assert_eq!(next.text_of("status"), "active", "{change:?}: {next:?}");
        scene.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_key_of_the_name_keeps_its_place() {
    let scene = Scene::new().await;
    let claim = json!({"resource": "x", "timeout": 600});
    scene.send("other", "POST /v1/claims", claim.clone()).await;
    assert_eq!(scene.send("taker", "POST /v1/claims", claim).await.status, 202);
    let second = leasehold_auth::NewKey::draw();
    let keys = std::fs::read_to_string(scene.file("keys.toml")).expect("a file");
    let first = &scene.keys["taker"];
    let keys = keys.replace(&first.id, &second.id).replace(&first.sha256, &second.sha256);
    std::fs::write(scene.file("keys.toml"), keys).expect("a file");
    scene.local.server.reload();
    let look = "GET /v1/locks/x";
    scene
        .local
        .until("the first key is gone", async |_| {
            scene.send("taker", look, Value::Null).await.status == 401
        })
        .await;
    let events = "GET /v1/locks/x/history";
    let past = scene.send("admin", events, Value::Null).await.text;
    assert!(!past.contains("wait_ended"), "{past}");
    assert_eq!(n_waiting(&scene, "x").await, 1);
    scene.stop().await;
}

/// Makes a claim with this token, checks that it waits, and returns its path.
async fn claim_by(scene: &Scene, token: &str, resource: &str) -> String {
    let claim = json!({"resource": resource, "timeout": 600});
    let waits = scene.by(token, "POST /v1/claims", claim).await;
    assert_eq!(waits.status, 202, "{waits:?}");
    let url = waits.text_of("url");
    url[url.find("/v1/").expect("an address")..].to_owned()
}

async fn status_of(scene: &Scene, path: &str) -> String {
    scene.send("admin", &format!("GET {path}"), Value::Null).await.text_of("status")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_waits_no_longer_than_the_token_it_was_made_with() {
    let idp = Idp::start(Key::ec()).await;
    let scene = crate::auth::token::scene(&idp, "leeway = \"0s\"").await;
    let claim = json!({"resource": "x", "timeout": 600});
    assert_eq!(scene.send("other", "POST /v1/claims", claim).await.status, 201);
    let mut claims = idp.claims();
    claims["exp"] = json!(NOW + 60);
    let short = claim_by(&scene, &idp.token_of("first", &claims), "x").await;
    let long = claim_by(&scene, &idp.token(), "x").await;
    scene.local.advance_ms(59_000);
    assert_eq!(status_of(&scene, &short).await, "waiting");
    scene.local.advance_ms(1_000);
    assert_eq!(status_of(&scene, &short).await, "expired", "no connection was needed");
    assert_eq!(status_of(&scene, &long).await, "waiting");
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_is_over_when_its_group_may_no_more() {
    let idp = Idp::start(Key::ec()).await;
    let scene = crate::auth::token::scene(&idp, "").await;
    // Another group of the user still has the right.
    let others = "[[rule]]\nname = \"ops\"\ngroups = [\"oidc:ops\"]\nmay = [\"acquire\"]\n\
        namespaces = [\"default\"]\n";
    let rules = std::fs::read_to_string(scene.file("auth.toml")).expect("a file");
    let with = |groups: &str| rules.replace("oidc:payments", groups) + others;
    std::fs::write(scene.file("auth.toml"), with("oidc:payments")).expect("a file");
    let claim = json!({"resource": "x", "timeout": 600});
    assert_eq!(scene.send("other", "POST /v1/claims", claim).await.status, 201);
    let token_in = |groups: Value| {
        let mut claims = idp.claims();
        claims["groups"] = groups;
        idp.token_of("first", &claims)
    };
    let pays = claim_by(&scene, &token_in(json!(["payments"])), "x").await;
    let both = token_in(json!(["payments", "ops"]));
    scene
        .local
        .until("the other rule is in force", async |_| {
            scene.local.server.reload();
            scene.by(&token_in(json!(["ops"])), LOOK, Value::Null).await.status == 200
        })
        .await;
    let operates = claim_by(&scene, &both, "x").await;
    std::fs::write(scene.file("auth.toml"), with("oidc:absent")).expect("a file");
    scene.local.server.reload();
    scene.local.until("it has ended", async |_| status_of(&scene, &pays).await == "revoked").await;
    assert_eq!(status_of(&scene, &operates).await, "waiting", "by another group it may");
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_is_over_with_the_issuer_of_its_token() {
    let idp = Idp::start(Key::ec()).await;
    let scene = crate::auth::token::scene(&idp, "").await;
    let claim = json!({"resource": "x", "timeout": 600});
    assert_eq!(scene.send("other", "POST /v1/claims", claim).await.status, 201);
    let waits = claim_by(&scene, &idp.token(), "x").await;
    // A different issuer under the same name: its users are different principals.
    let rules = std::fs::read_to_string(scene.file("auth.toml")).expect("a file");
    let rules = rules.replace(&idp.url(), "https://id.example.org");
    std::fs::write(scene.file("auth.toml"), rules).expect("a file");
    scene.local.server.reload();
    scene.local.until("it has ended", async |_| status_of(&scene, &waits).await == "revoked").await;
    scene.stop().await;
}
