//! The canary test with authentication: searches everything others can read, and the audit files, for API keys, session
//! ids and proofs.

use std::collections::BTreeSet;

use leasehold_server::audit::Options;
use leasehold_testkit::{Guarded, Local, Method, Value, json, settings};

use crate::canary::{NASTY, STREAM_MAX, body_of_canaries, filled, operations_of};

const RULES: &str = r#"
version = 1
key-files = ["keys.toml"]
[[rule]]
name = "ann"
who = ["key:ann", "key:bob"]
may = ["acquire", "revoke", "files-write"]
namespaces = ["default", "files", "t"]
[[rule]]
name = "admins"
who = ["key:admin"]
may = ["admin"]
namespaces = ["*"]
"#;

const WHO: [&str; 3] = ["ann", "bob", "admin"];

/// A server with keys and an audit file, and the secrets that must not appear anywhere.
pub(crate) struct Keyed {
    local: Local,
    files: Guarded,
    pub(crate) secrets: BTreeSet<String>,
    pub(crate) seen: String,
}

impl Keyed {
    pub(crate) async fn start() -> Self {
        let files = Guarded::new(RULES, &WHO);
        let mut settings = settings(None);
        settings.auth_file = Some(files.file());
        settings.audit = Some(Options::new(files.folder().join("audit.log")));
        let local = Local::start(settings).await;
        // The part of a key after its id is the secret.
        let secret = |who: &str| files.key(who).rsplit('_').next().unwrap().to_owned();
        let secrets = WHO.into_iter().map(secret).collect();
        Self { local, files, secrets, seen: String::new() }
    }

    async fn call(
        &self,
        who: &str,
        line: &str,
        body: &Value,
    ) -> Option<leasehold_testkit::Response> {
        let bearer = format!("Bearer {}", self.files.key(who));
        self.call_with(&bearer, line, body).await
    }

    async fn call_with(
        &self,
        bearer: &str,
        line: &str,
        body: &Value,
    ) -> Option<leasehold_testkit::Response> {
        let (method, path) = line.split_once(' ').unwrap();
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let headers = [
            ("authorization", bearer),
            ("content-type", "application/json"),
            ("x-request-id", "keyed\u{9b}1"),
        ];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.local.client.send_with(method, path, &headers, body).await.ok()
    }

    /// Sends a request as `ann` and records the part of the response that only she may know.
    async fn learn(&mut self, line: &str, body: Value, secret: &str) -> String {
        let answer = self.call("ann", line, &body).await.expect("an answer");
        assert!(answer.status < 300, "{line}: {answer:?}");
        let secret = answer.text_of(secret);
        assert!(secret.len() > 20, "{line}: {answer:?}");
        self.secrets.insert(secret.clone());
        secret
    }

    /// Sends a request as `bob` and as an admin about what belongs to `ann`.
    async fn see(&mut self, line: &str, body: &Value) {
        for who in ["bob", "admin"] {
            let call = self.call(who, line, body);
            if let Ok(Some(answer)) = tokio::time::timeout(STREAM_MAX, call).await {
                self.seen.push_str(&answer.text);
            }
        }
    }

    /// `ann` acquires something in every dialect, the others send every call, and some requests use wrong keys.
    pub(crate) async fn live(&mut self) {
        let session = json!({"owner_id": NASTY, "ttl_ms": 60_000});
        let session = self.learn("POST /v1/sessions", session, "session_id").await;
        let acquire = json!({"owner_id": NASTY, "ttl_ms": 60_000, "request_id": "r"});
        let lease = self.learn("POST /v1/locks/x/acquire", acquire, "lease_id").await;
        let leased = json!({
            "tenant_id": "t", "request_id": "r", "lock_key": "x", "owner_id": "ann", "ttl_seconds": 30,
        });
        let other = self.learn("POST /leases/acquire", leased, "lease_id").await;
        let files = self.learn("POST /auth/session", Value::Null, "sessionId").await;
        let bearer = format!("Bearer {files}");
        self.call_with(&bearer, "PUT /a.txt", &json!("content")).await;
        let acquire = self.call_with(&bearer, "GET /b.txt?lock=acquire", &Value::Null);
        let _ = tokio::time::timeout(STREAM_MAX, acquire).await;
        let proof =
            json!({"owner_id": NASTY, "lease_id": lease, "fencing_token": 1, "extend_by_ms": 1});
        for line in [
            "POST /v1/locks/x/renew".to_owned(),
            "POST /v1/locks/x/release".into(),
            format!("GET /v1/sessions/{session}"),
            format!("DELETE /v1/sessions/{session}"),
            format!("POST /leases/{other}/release"),
            "GET /b.txt?lock=status".into(),
        ] {
            self.see(&line, &proof).await;
        }
        for (method, path) in
            operations_of(&self.call("admin", "GET /openapi.json", &Value::Null).await.unwrap())
        {
            let line = format!("{method} {}", filled(&path));
            for body in [body_of_canaries(), Value::Null] {
                self.see(&line, &body).await;
            }
        }
        // A key with one wrong character still reveals most of the secret.
        let nearly = format!("{}x", self.files.key("ann"));
        for line in ["GET /v1/locks", "GET /metrics", "POST /v1/claims", "GET /a.txt", "GET /lock"]
        {
            let wrong =
                self.call_with(&format!("Bearer {nearly}"), line, &Value::Null).await.unwrap();
            assert!(wrong.status == 401 || wrong.status == 429, "{wrong:?}");
            self.seen.push_str(&wrong.text);
        }
        for path in [
            "/v1/locks",
            "/v1/history",
            "/metrics",
            "/v1/claims/",
            "/lock/page",
            "/admin/locks",
            "/v1/admin/sessions",
            "/v1/admin/auth",
            "/locks/x?tenant_id=t",
        ] {
            self.see(&format!("GET {path}"), &Value::Null).await;
        }
        self.local.server.reload();
    }

    /// Returns the text of all audit files.
    pub(crate) fn audit(&self) -> String {
        let files = ["audit.log", "audit.log.admin", "audit.log.refusals", "audit.log.unknown"];
        let read = |name| std::fs::read_to_string(self.files.folder().join(name)).unwrap();
        let text: String = files.map(read).concat();
        assert!(text.lines().count() > 20 && text.is_ascii(), "{text}");
        text
    }
}
