//! Tests of authentication: Basic with an API key, and the rights on states.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leasehold_testkit::{Method, Response, settings};

use crate::doors::terraform::{A, Scene, info};

const RULES: &str = r#"
version = 1
key-files = ["keys.toml"]

[[rule]]
name = "writers"
who = ["key:writer", "key:other"]
may = ["files-write"]
namespaces = ["terraform"]
locks = ["prod*"]

[[rule]]
name = "readers"
who = ["key:reader"]
may = ["files-read"]
namespaces = ["terraform"]

[[rule]]
name = "revokers"
who = ["key:other"]
may = ["revoke"]
namespaces = ["terraform"]
"#;

struct Guarded {
    scene: Scene,
    files: leasehold_testkit::Guarded,
}

impl Guarded {
    async fn new() -> Self {
        let files = leasehold_testkit::Guarded::new(RULES, &["writer", "other", "reader"]);
        let auth_file = Some(files.file());
        let scene = Scene::with(settings(None), |settings| settings.auth_file = auth_file).await;
        Self { scene, files }
    }

    async fn send(&self, who: &str, line: &str, body: impl Into<String>) -> Response {
        let (method, path) = line.split_once(' ').expect("a method");
        let method: Method = method.parse().unwrap();
        let key = self.files.key(who);
        let basic = format!("Basic {}", STANDARD.encode(format!("user:{key}")));
        let headers = [("authorization", basic.as_str())];
        let headers = if who.is_empty() { &headers[..0] } else { &headers[..] };
        let sent = self.scene.local.client.send_with(method, path, headers, body.into());
        sent.await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_belongs_to_its_principal() {
    let guarded = Guarded::new().await;
    for (who, line, body, status) in [
        ("stranger", "LOCK /terraform/prod", info(A, "a"), 401),
        ("writer", "LOCK /terraform/dev", info(A, "a"), 403),
        ("writer", "LOCK /terraform/prod", info(A, "a"), 200),
        ("writer", &format!("POST /terraform/prod?ID={A}"), "{}".into(), 200),
        // Another principal cannot use the lock id as a proof.
        ("other", &format!("POST /terraform/prod?ID={A}"), "{}".into(), 409),
        ("other", "UNLOCK /terraform/prod", info(A, "a"), 409),
        ("writer", "GET /terraform/dev", String::new(), 403),
        ("reader", "UNLOCK /terraform/prod", String::new(), 403),
        // A principal with the right to revoke can force an unlock.
        ("other", "UNLOCK /terraform/prod", String::new(), 200),
        ("other", "LOCK /terraform/prod", info(A, "a"), 200),
        ("writer", "UNLOCK /terraform/prod", String::new(), 403),
        ("other", "UNLOCK /terraform/prod", String::new(), 200),
        ("writer", "LOCK /terraform/prod", info(A, "a"), 200),
        ("writer", "UNLOCK /terraform/prod", String::new(), 200),
    ] {
        let answer = guarded.send(who, line, body).await;
        assert_eq!(answer.status, status, "{who}: {line}: {answer:?}");
    }
    let seen = guarded.send("reader", "GET /terraform", "").await;
    assert_eq!(seen.get("states")[0]["state"], "prod", "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_another_name_is_shown_with_its_own() {
    let guarded = Guarded::new().await;
    let forged = info(A, "key:other");
    assert_eq!(guarded.send("writer", "POST /terraform/prod", "{}").await.status, 200);
    assert_eq!(guarded.send("writer", "LOCK /terraform/prod", forged).await.status, 200);
    let refused = guarded.send("other", "LOCK /terraform/prod", info("b", "bob")).await;
    assert_eq!(refused.status, 423, "{refused:?}");
    let shown = "held by key:other (key:writer) since";
    assert!(refused.text_of("ID").contains(shown), "{refused:?}");
    assert_eq!(refused.text_of("Who"), "key:other (key:writer)");
    let seen = guarded.send("reader", "GET /terraform", "").await;
    assert_eq!(seen.get("states")[0]["locked_by"], "key:other (key:writer)", "{seen:?}");
}
