//! Tests of authentication: Basic with an API key, and tickets for transfers. A transfer never gets 401.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leasehold_testkit::{Method, Response, Value, json};

use crate::doors::lfs::{Scene, batch_request, id_of, is, lock_request, oid};

const RULES: &str = r#"
version = 1
key-files = ["keys.toml"]

[[rule]]
name = "writers"
who = ["key:alice", "key:bob"]
may = ["files-write"]
namespaces = ["lfs"]
locks = ["team/app/*"]

[[rule]]
name = "readers"
who = ["key:reader"]
may = ["files-read"]
namespaces = ["lfs"]

[[rule]]
name = "revokers"
who = ["key:bob"]
may = ["revoke"]
namespaces = ["lfs"]
"#;

struct Guarded {
    scene: Scene,
    files: leasehold_testkit::Guarded,
}

impl Guarded {
    async fn new() -> Self {
        let files = leasehold_testkit::Guarded::new(RULES, &["alice", "bob", "reader"]);
        let scene = Scene::with(|settings| settings.auth_file = Some(files.file())).await;
        Self { scene, files }
    }

    fn proof(&self, who: &str) -> String {
        format!("Basic {}", STANDARD.encode(format!("any:{}", self.files.key(who))))
    }

    async fn send(&self, who: &str, line: &str, body: Value) -> Response {
        let proof = self.proof(who);
        let headers = [("authorization", proof.as_str())];
        let headers = if who.is_empty() { &headers[..0] } else { &headers[..] };
        self.scene.send_with(headers, line, body).await
    }

    async fn batch(&self, who: &str, operation: &str, content: &[u8]) -> Response {
        let name = oid(content);
        let body = batch_request(operation, &[(&name, content.len() as i64)]);
        self.send(who, "POST /lfs/team/app/objects/batch", body).await
    }

    async fn action(&self, who: &str, operation: &str, content: &[u8]) -> Value {
        let batch = self.batch(who, operation, content).await;
        is(&batch, 200);
        batch.get("objects")[0]["actions"][operation].clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_belongs_to_its_principal() {
    let guarded = Guarded::new().await;
    let refused = guarded.send("", "POST /lfs/team/app/locks", lock_request("x")).await;
    is(&refused, 401);
    // This header makes git-lfs send a name and a password.
    assert_eq!(refused.headers["lfs-authenticate"], "Basic realm=\"leasehold\"");
    let told = "any name, and an API key as the password";
    assert!(refused.text_of("message").contains(told), "{refused:?}");
    is(&guarded.send("stranger", "POST /lfs/team/app/locks", lock_request("x")).await, 401);
    is(&guarded.send("alice", "POST /lfs/team/other/locks", lock_request("x")).await, 403);
    let locked = guarded.send("alice", "POST /lfs/team/app/locks", lock_request("x")).await;
    is(&locked, 201);
    assert_eq!(locked.get("lock")["owner"]["name"], "key:alice");
    let taken = guarded.send("bob", "POST /lfs/team/app/locks", lock_request("x")).await;
    is(&taken, 409);
    assert!(taken.text_of("message").starts_with("x is locked by key:alice since"), "{taken:?}");
    let seen = guarded.send("reader", "GET /lfs/team/app/locks", Value::Null).await;
    assert_eq!(seen.get("locks")[0]["path"], "x", "{seen:?}");
    let verified = guarded.send("alice", "POST /lfs/team/app/locks/verify", json!({})).await;
    assert_eq!(verified.get("ours")[0]["path"], "x", "{verified:?}");
    let unlock = format!("POST /lfs/team/app/locks/{}/unlock", id_of(&locked));
    // Only a principal that is allowed to force an unlock gets the advice to do so.
    for (who, told) in [("bob", "--force revokes it"), ("reader", "only they, or a user")] {
        let refused = guarded.send(who, &unlock, json!({"force": false})).await;
        is(&refused, 403);
        assert!(refused.text_of("message").contains(told), "{who}: {refused:?}");
    }
    is(&guarded.send("reader", &unlock, json!({"force": true})).await, 403);
    is(&guarded.send("bob", &unlock, json!({"force": true})).await, 200);
    let other = batch_request("download", &[(&oid(b"x"), 1)]);
    is(&guarded.send("alice", "POST /lfs/team/other/objects/batch", other).await, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_is_never_answered_401() {
    let guarded = Guarded::new().await;
    let (client, name) = (&guarded.scene.local.client, oid(b"x"));
    let path = format!("/lfs/team/app/objects/{name}");
    let wrong = guarded.proof("stranger");
    for headers in [
        &[][..],
        &[("authorization", wrong.as_str())],
        &[("authorization", "Bearer x")],
        &[("authorization", "Nonsense")],
        &[("x-leasehold-ticket", "")],
        &[("x-leasehold-ticket", "e30.e30")],
        &[("authorization", wrong.as_str()), ("x-leasehold-ticket", "e30.e30")],
        &[("authorization", wrong.as_str()), ("authorization", wrong.as_str())],
    ] {
        for (method, path) in [
            (Method::GET, path.clone()),
            (Method::HEAD, path.clone()),
            (Method::PUT, path.clone()),
            (Method::POST, format!("{path}/verify")),
            (Method::GET, path.replace("/lfs/team/app", "/lfs/team/app.git/info/lfs")),
        ] {
            let answer = client.send_with(method.clone(), &path, headers, "x").await.unwrap();
            assert_eq!(answer.status, 403, "{method} {path} {headers:?}: {answer:?}");
            assert!(!answer.headers.contains_key("www-authenticate"), "{answer:?}");
        }
    }
    // A ticket is not a credential for other calls.
    let ticket =
        guarded.action("alice", "upload", b"x").await["header"]["x-leasehold-ticket"].clone();
    let headers = [("x-leasehold-ticket", ticket.as_str().unwrap())];
    for path in ["/lfs/team/app/locks", "/v1/locks", "/lfs/team/app/objects/batch"] {
        let answer = client.send_with(Method::GET, path, &headers, "").await.unwrap();
        assert_eq!(answer.status, 401, "{path}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_is_for_one_object_one_way_one_repository_and_a_while() {
    let guarded = Guarded::new().await;
    let scene = &guarded.scene;
    let upload = guarded.action("alice", "upload", b"content").await;
    is(&scene.act(Method::PUT, &upload, &[], b"content").await, 200);
    is(&scene.act(Method::GET, &upload, &[], b"").await, 403);
    // Each object needs its own ticket, for upload and for download.
    let (this, other) = (oid(b"content"), oid(b"other"));
    let mut swapped = upload.clone();
    swapped["href"] = upload["href"].as_str().unwrap().replace(&this, &other).into();
    is(&scene.act(Method::PUT, &swapped, &[], b"other").await, 403);
    let also = guarded.action("alice", "upload", b"other").await;
    is(&scene.act(Method::PUT, &also, &[], b"other").await, 200);
    let download = guarded.action("reader", "download", b"content").await;
    assert_eq!(scene.act(Method::GET, &download, &[], b"").await.text, "content");
    is(&scene.act(Method::PUT, &download, &[], b"content").await, 403);
    let mut swapped = download.clone();
    swapped["href"] = download["href"].as_str().unwrap().replace(&this, &other).into();
    is(&scene.act(Method::GET, &swapped, &[], b"").await, 403);
    let mut elsewhere = download.clone();
    let href = elsewhere["href"].as_str().unwrap().replace("/team/app/", "/team/other/");
    elsewhere["href"] = href.into();
    is(&scene.act(Method::GET, &elsewhere, &[], b"").await, 403);
    // A ticket and a key of different principals are refused.
    let other = guarded.proof("bob");
    let both = [("authorization", other.as_str())];
    is(&scene.act(Method::GET, &download, &both, b"").await, 403);
    let own = guarded.proof("reader");
    is(&scene.act(Method::GET, &download, &[("authorization", &own)], b"").await, 200);
    scene.local.advance_ms(3_599_000);
    is(&scene.act(Method::GET, &download, &[], b"").await, 200);
    scene.local.advance_ms(1000);
    let over = scene.act(Method::GET, &download, &[], b"").await;
    is(&over, 403);
    assert!(over.text_of("message").contains("has expired"), "{over:?}");
    // A key works without a ticket too.
    let key = [("authorization", own.as_str())];
    let path = format!("/lfs/team/app/objects/{}", oid(b"content"));
    is(&scene.local.client.send_with(Method::GET, &path, &key, "").await.unwrap(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_is_worth_no_more_than_its_key() {
    let guarded = Guarded::new().await;
    let scene = &guarded.scene;
    let upload = guarded.action("alice", "upload", b"content").await;
    guarded.files.revoke("alice");
    scene.local.server.reload();
    let is_refused = async |_: &_| guarded.batch("alice", "upload", b"content").await.status == 401;
    scene.local.until("the key is revoked", is_refused).await;
    is(&scene.act(Method::PUT, &upload, &[], b"content").await, 403);
    let refused = guarded.action("bob", "download", b"content").await;
    assert!(refused.is_null(), "nothing was stored");
}
