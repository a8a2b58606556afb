//! Tests that two tenants with separate namespaces cannot see each other's locks, in any dialect.

use leasehold_testkit::{Value, json};

use crate::auth::Scene;

/// Auth file with two tenants, `red` and `blue`. Each has all rights, but only on its own names in each dialect's
/// namespace.
pub(crate) const RULES: &str = r#"
version = 1
key-files = ["keys.toml"]

[[rule]]
name = "red"
who = ["key:red"]
may = ["acquire", "revoke", "files-write"]
namespaces = ["default", "red", "files", "terraform", "lfs"]
locks = ["red*", "/red/*"]

[[rule]]
name = "blue"
who = ["key:blue"]
may = ["acquire", "revoke", "files-write"]
namespaces = ["default", "blue", "files", "terraform", "lfs"]
locks = ["blue*", "/blue/*"]

[[rule]]
name = "admins"
who = ["key:admin"]
may = ["admin"]
namespaces = ["*"]
"#;

fn lease(tenant: &str, lock: &str, request: &str, owner: &str) -> Value {
    json!({
        "tenant_id": tenant, "lock_key": lock, "request_id": request, "owner_id": owner, "ttl_seconds": 300,
    })
}

/// Creates locks, leases, a claim and a file as `who` in every dialect. Returns the path of the claim.
async fn live(scene: &Scene, who: &str) -> String {
    let metadata = json!({"canary": format!("{who}-metadata")});
    let acquire =
        json!({"owner_id": format!("{who}-owner"), "ttl_ms": 600_000, "metadata": metadata});
    scene.send(who, &format!("POST /v1/locks/{who}-native/acquire"), acquire.clone()).await;
    scene.send(who, &format!("POST /v1/namespaces/{who}/locks/{who}-own/acquire"), acquire).await;
    let lease = lease(who, &format!("{who}-lease"), &format!("{who}-request"), who);
    assert_eq!(scene.send(who, "POST /leases/acquire", lease).await.status, 201);
    let claim = json!({"resource": format!("{who}-claim"), "timeout": 600, "metadata": {"x": format!("{who}-data")}});
    let claim = scene.send(who, "POST /v1/claims", claim).await.text_of("url");
    assert_eq!(
        scene
            .send(who, &format!("POST /lock?client={who}-client&job={who}-job"), Value::Null)
            .await
            .status,
        200
    );
    let session = scene.send(who, "POST /auth/session", Value::Null).await.text_of("sessionId");
    let bearer = format!("Bearer {session}");
    let put = format!("PUT /{who}/{who}-file.txt");
    assert_eq!(scene.status(&[("authorization", &bearer)], &put, "content").await, 201);
    let lock = format!("GET /{who}/{who}-locked.txt?lock=acquire");
    assert_eq!(scene.status(&[("authorization", &bearer)], &lock, "").await, 200);
    claim[claim.find("/v1/").expect("an address")..].into()
}

/// Paths with which `blue` tries to read what belongs to `red`.
const LOOKS: [&str; 30] = [
    "/v1/locks",
    "/v1/locks?limit=1",
    "/v1/locks?prefix=red",
    "/v1/locks?owner=red-owner",
    "/v1/history",
    "/v1/history?limit=1",
    "/v1/history?owner=red-owner",
    "/v1/namespaces/red/history",
    "/v1/namespaces/red/locks",
    "/v1/locks/red-native",
    "/v1/locks/red-native/history",
    "/v1/namespaces/red/locks/red-own",
    "/locks/red-lease?tenant_id=red",
    "/locks/red-none?tenant_id=red",
    "/v1/claims",
    "/v1/claims?limit=1",
    "/v1/claims?resource=red-claim",
    "/v1/claims?offset=1",
    "/lock?job=red-job",
    "/lock/page",
    "/",
    "/red/",
    "/red",
    "/red/red-file.txt",
    "/files/red/red-file.txt",
    "/admin/locks",
    "/admin/locks?limit=1",
    "/v1/namespaces/red/events",
    "/metrics",
    "/v1/admin/sessions",
];

/// Returns every request that `blue` sends about `red`'s locks, claims and files, with its body.
fn questions(red_claim: &str) -> Vec<(String, Value)> {
    let acquire = json!({"owner_id": "o", "ttl_ms": 1000});
    let both = json!([{"lock_name": "blue-free"}, {"lock_name": "red-native"}]);
    let calls = [
        ("POST /v1/locks/red-native/acquire", acquire),
        ("POST /v1/acquire", json!({"owner_id": "o", "ttl_ms": 1000, "locks": both})),
        ("POST /v1/locks/red-native/revoke", json!({"reason": "r"})),
        ("POST /v1/revoke", json!({"owner": "red-owner", "reason": "r"})),
        ("POST /v1/revoke", json!({"principal": "key:red", "reason": "r"})),
        ("POST /v1/fence/check", json!({"lock_name": "red-native", "fencing_token": 1})),
        ("POST /leases/acquire", lease("red", "red-lease", "red-request", "blue")),
        ("POST /locks/red-lease/force-release", json!({"tenant_id": "red", "actor": "me"})),
        ("POST /v1/claims", json!({"resource": "red-claim", "timeout": 1})),
        ("POST /lock?client=c&job=red-job", Value::Null),
        ("DELETE /lock?client=red-client&job=red-job", Value::Null),
        ("DELETE /admin/locks/red/red-locked.txt", Value::Null),
    ];
    let looks = LOOKS.into_iter().map(|path| (format!("GET {path}"), Value::Null));
    let calls = calls.into_iter().map(|(line, body)| (line.to_owned(), body));
    let claim = [
        (format!("GET {red_claim}"), Value::Null),
        (format!("PATCH {red_claim}"), json!({"status": "revoked"})),
    ];
    looks.chain(calls).chain(claim).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_shows_what_is_anothers() {
    let scene = Scene::with(RULES, &["red", "blue", "admin"], |_| {}).await;
    let red_claim = live(&scene, "red").await;
    live(&scene, "blue").await;
    for (line, body) in questions(&red_claim) {
        let answer = scene.send("blue", &line, body.clone()).await;
        // A refusal may repeat only names that `blue` sent itself.
        let mut told = answer.text.clone();
        for own in [
            "default/red-native",
            "red/red-own",
            "red/red-lease",
            "red/red-none",
            "default/red-claim",
            "default/red-job",
            "files//red/red-file.txt",
            "files//red/red-locked.txt",
            "files//red/",
            "files//red",
            "\"red\"",
        ] {
            told = told.replace(own, "").replace(&own.replace('"', "\\\""), "");
        }
        assert!(!told.contains("red-") && !told.contains("key:red"), "{line}: {answer:?}");
        let link = answer.headers.get("link").map(|link| link.to_str().expect("text"));
        assert!(!(line.contains("/v1/claims?limit=1") && link.is_some()), "counted after trimming");
    }
    // None of these requests changed anything: `red` and `blue` still hold their locks.
    let admin = scene.send("admin", "GET /v1/locks?limit=1000", Value::Null).await;
    let held = admin.body["locks"]
        .as_array()
        .expect("locks")
        .iter()
        .filter(|lock| lock["held"] == true)
        .count();
    assert_eq!(held, 6, "{}", admin.text);
    scene.stop().await;
}

#[tokio::test]
async fn a_name_is_refused_whether_or_not_it_exists() {
    let scene = Scene::with(RULES, &["red", "blue", "admin"], |_| {}).await;
    live(&scene, "red").await;
    for (there, not_there) in [
        ("GET /v1/locks/red-native", "GET /v1/locks/red-nativf"),
        ("GET /locks/red-lease?tenant_id=red", "GET /locks/red-leasf?tenant_id=red"),
        ("GET /lock?job=red-job", "GET /lock?job=red-joc"),
        ("GET /red/red-file.txt", "GET /red/red-filf.txt"),
        ("GET /v1/namespaces/red/locks", "GET /v1/namespaces/ref/locks"),
    ] {
        let (a, b) = (
            scene.send("blue", there, Value::Null).await,
            scene.send("blue", not_there, Value::Null).await,
        );
        assert_eq!((a.status, b.status), (403, 403), "{there}");
    }
    scene.stop().await;
}
