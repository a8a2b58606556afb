//! Tests of what the audit files keep, whatever clients do. Each kind of line has its own file and its own limits.

use std::path::Path;

use hyper::Method;
use leasehold_server::audit::{self, Options};
use leasehold_testkit::{Response, Value, folder, json};

use crate::auth::audit::lines;
use crate::auth::{NAMES, RULES, Scene, acquire};

const CONTENT: &str = "x";
const OID: &str = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";

async fn scene(file: &Path, change: impl FnOnce(&mut Options)) -> Scene {
    let mut options = Options::new(file);
    change(&mut options);
    Scene::with(RULES, &NAMES, |settings| settings.audit = Some(options)).await
}

/// Returns the lines of one file.
fn of(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("a file");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Returns act and principal of the audit lines of this kind.
fn acts(file: &Path, kind: &str) -> Vec<(String, String)> {
    let told = lines(file).into_iter().filter(|line| line["kind"] == kind);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    told.map(|line| (text(&line["act"]), text(&line["by"]["principal"]))).collect()
}

#[tokio::test]
async fn no_flood_of_a_client_pushes_out_what_operators_did_and_known_principals_were_refused() {
    let home = folder();
    let file = home.path().join("audit.log");
    let scene = scene(&file, |options| {
        options.bytes_max = 4096;
        options.keep = 1;
        options.refusals_per_second = 1000;
        options.refusals_per_client = 1000;
    })
    .await;
    scene.send("admin", "PUT /v1/admin/maintenance", json!({"on": false})).await;
    assert_eq!(scene.send("reader", "POST /lock?client=c", Value::Null).await.status, 403);
    let reason = json!({"reason": "flood"});
    for n in 0..40 {
        let line = format!("POST /v1/locks/l{n}/acquire");
        assert_eq!(scene.send("taker", &line, acquire("o")).await.status, 200);
        let session = json!({"owner_id": "o", "ttl_ms": 60_000});
        assert_eq!(scene.send("taker", "POST /v1/sessions", session).await.status, 201);
        assert_eq!(scene.status(&[], "GET /v1/locks/x", "").await, 401);
        // The right to revoke in some namespaces does not make a principal an operator.
        scene.send("revoker", "POST /v1/locks/none/revoke", reason.clone()).await;
    }
    assert!(!audit::rotated(&file).is_empty(), "clients have filled it");
    let [access, admin, refusals, unknown] = audit::files(&file);
    assert_eq!(access, file);
    assert!(!audit::rotated(&unknown).is_empty(), "unknown clients have filled theirs");
    let told: Vec<_> = of(&admin).iter().map(|line| line["act"].clone()).collect();
    assert_eq!(told, ["start", "maintenance"]);
    let refused = of(&refusals);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0]["by"]["principal"], "key:reader");
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_clients_do_not_hide_refusals_of_principals_and_what_was_left_out_is_told() {
    let home = folder();
    let file = home.path().join("audit.log");
    let scene = scene(&file, |options| {
        options.refusals_per_second = 5;
        options.refusals_per_client = 2;
    })
    .await;
    scene.local.clock.set_wall_ms(1_000_000_000_000);
    for _ in 0..10 {
        assert_eq!(scene.status(&[], "GET /v1/locks/x", "").await, 401);
    }
    for who in ["reader", "reader", "reader", "nothing"] {
        assert_eq!(scene.send(who, "POST /lock?client=c", Value::Null).await.status, 403);
    }
    let [_, _, refusals, unknown] = audit::files(&file);
    let by: Vec<_> = of(&refusals).iter().map(|line| line["by"]["principal"].clone()).collect();
    assert_eq!(by, ["key:reader", "key:reader", "key:nothing"]);
    assert_eq!(of(&unknown).len(), 2);
    // The line about left-out refusals is written even if no further request is refused.
    scene.local.advance_ms(1000);
    let left_out = |file: &Path| {
        let told = of(file).into_iter().find(|line| line["act"] == "refusals left out");
        told.map(|line| line["detail"].clone())
    };
    let is_told = async |_: &_| left_out(&unknown).is_some() && left_out(&refusals).is_some();
    scene.local.until("it is told", is_told).await;
    let of_peer = json!({"n": 8, "peer": "127.0.0.1", "outcome": "unauthenticated"});
    assert_eq!(left_out(&unknown), Some(of_peer));
    let of_reader = json!({"n": 1, "principal": "key:reader", "outcome": "forbidden"});
    assert_eq!(left_out(&refusals), Some(of_reader));
    let metrics = scene.send("admin", "GET /metrics", Value::Null).await.text;
    assert!(metrics.contains("leasehold_audit_left_out_refusals_total{} 9"), "{metrics}");
    scene.stop().await;
}

#[tokio::test]
async fn leases_that_a_client_took_from_others_are_told_beside_the_acts_of_operators() {
    let home = folder();
    let file = home.path().join("audit.log");
    let scene = scene(&file, |options| options.refusals_per_client = 3).await;
    scene.local.clock.set_wall_ms(1_000_000_000_000);
    let reason = json!({"reason": "gone"});
    for n in 0..5 {
        let taken =
            scene.send("taker", &format!("POST /v1/locks/l{n}/acquire"), acquire("o")).await;
        assert_eq!(taken.status, 200);
        for lock in [format!("l{n}"), "none".into()] {
            let line = format!("POST /v1/locks/{lock}/revoke");
            assert_eq!(scene.send("revoker", &line, reason.clone()).await.status, 200);
        }
    }
    let [access, admin, ..] = audit::files(&file);
    let revoked = |file: &Path| -> Vec<_> {
        let told = of(file).into_iter().filter(|line| line["act"] == "revoke");
        told.map(|line| (line["lock"].as_str().unwrap().to_owned(), line["detail"]["n"].clone()))
            .collect()
    };
    let told = |lock: &str, n: u64| (lock.to_owned(), json!(n));
    assert_eq!(revoked(&admin), [told("l0", 1), told("l1", 1), told("l2", 1)]);
    let rest: Vec<_> = revoked(&access).into_iter().filter(|(lock, _)| lock != "none").collect();
    assert_eq!(rest, [told("l3", 1), told("l4", 1)], "none is lost");
    scene.stop().await;
}

#[tokio::test]
async fn sign_ins_and_sessions_are_told() {
    let home = folder();
    let file = home.path().join("audit.log");
    let scene = scene(&file, |_| {}).await;
    let form = [("content-type", "application/x-www-form-urlencoded"), ("host", "localhost")];
    let post = async |path: &str, more: &[(&str, &str)], body: String| -> Response {
        let headers = [&form[..], more].concat();
        let sent = scene.local.client.send_with(Method::POST, path, &headers, body);
        sent.await.expect("an answer")
    };
    let mut cookie = String::new();
    for who in ["admin", "taker"] {
        let key = format!("key={}", scene.keys[who].text);
        let answer = post("/console/sign-in", &[], key).await;
        assert_eq!(answer.status, 303, "{}", answer.text);
        let set = answer.headers["set-cookie"].to_str().expect("text");
        cookie = set.split(';').next().expect("a cookie").to_owned();
    }
    assert_eq!(post("/console/sign-in", &[], "key=lh_a_b".into()).await.status, 401);
    assert_eq!(post("/console/sign-out", &[("cookie", &cookie)], String::new()).await.status, 303);
    let session = json!({"owner_id": "o", "ttl_ms": 60_000});
    let opened = scene.send("taker", "POST /v1/sessions", session).await;
    let close = format!("DELETE /v1/sessions/{}", opened.text_of("session_id"));
    assert_eq!(scene.send("taker", &close, Value::Null).await.status, 204);
    let editor = scene.send("file-writer", "POST /auth/session", Value::Null).await;
    let bearer = format!("Bearer {}", editor.text_of("sessionId"));
    assert_eq!(scene.status(&[("authorization", &bearer)], "DELETE /auth/session", "").await, 204);
    let expected = [
        ("sign-in", "key:admin"),
        ("sign-in", "key:taker"),
        ("sign-out", "key:taker"),
        ("open-session", "key:taker"),
        ("close-session", "key:taker"),
        ("open-session", "key:file-writer"),
        ("close-session", "key:file-writer"),
    ];
    assert_eq!(acts(&file, "session"), expected.map(|(act, by)| (act.into(), by.into())));
    let [_, admin, _, unknown] = audit::files(&file);
    assert_eq!(of(&admin).last().expect("a line")["act"], "sign-in", "an operator's stays");
    let wrong = of(&unknown).remove(0);
    assert_eq!((&wrong["status"], &wrong["route"]), (&json!(401), &json!("/console/sign-in")));
    let text = std::fs::read_to_string(&file).expect("a file");
    for secret in [opened.text_of("session_id"), editor.text_of("sessionId"), cookie] {
        assert!(!text.contains(&secret), "no secret is in it");
    }
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_done_to_content_is_told() {
    let home = folder();
    let file = home.path().join("audit.log");
    let scene = scene(&file, |_| {}).await;
    let editor = scene.send("file-writer", "POST /auth/session", Value::Null).await;
    let bearer = format!("Bearer {}", editor.text_of("sessionId"));
    let key = scene.proof("file-writer").remove(0).1;
    let properties = "<propertyupdate xmlns='DAV:'><set><prop><displayname>a</displayname></prop></set>\
                      </propertyupdate>";
    let object = format!("PUT /lfs/repo/objects/{OID}");
    for (proof, line, body, act, lock, status) in [
        (&bearer, "PUT /f.txt", CONTENT, "put", "/f.txt", 201),
        (&bearer, "POST /dir/", "", "make-folder", "/dir/", 201),
        (&bearer, "DELETE /f.txt", "", "delete", "/f.txt", 204),
        (&key, "PUT /dav/d.txt", CONTENT, "put", "/d.txt", 201),
        (&key, "MKCOL /dav/sub", "", "make-folder", "/sub/", 201),
        (&key, "PROPPATCH /dav/d.txt", properties, "set-properties", "/d.txt", 207),
        (&key, "COPY /dav/d.txt", "", "copy", "/d.txt", 201),
        (&key, "MOVE /dav/d.txt", "", "move", "/d.txt", 204),
        (&key, "DELETE /dav/to.txt", "", "delete", "/to.txt", 204),
        (&key, "POST /terraform/prod", "{}", "write-state", "prod", 200),
        (&key, "POST /terraform/prod/versions/1/restore", "", "restore-state", "prod", 200),
        (&key, &object, CONTENT, "upload-object", "repo/", 200),
    ] {
        let headers =
            [("authorization", proof.as_str()), ("destination", "http://localhost/dav/to.txt")];
        assert_eq!(scene.status(&headers, line, body).await, status, "{line}");
        let told: Vec<_> =
            lines(&file).into_iter().filter(|line| line["kind"] == "content").collect();
        let last = told.last().expect("a line");
        assert_eq!((&last["act"], &last["lock"]), (&json!(act), &json!(lock)), "{line}: {last}");
        assert_eq!(last["by"]["principal"], "key:file-writer", "{line}");
    }
    let told = lines(&file);
    let detail = |act: &str| {
        let told = told.iter().find(|line| line["act"] == act).expect("a line");
        told["detail"].clone()
    };
    assert_eq!(detail("put"), json!({"bytes": 1}));
    assert_eq!(detail("copy"), json!({"to": "/to.txt"}));
    assert_eq!(detail("restore-state"), json!({"version": 2, "bytes": 2}));
    assert_eq!(detail("upload-object"), json!({"oid": OID, "bytes": 1}));
    scene.stop().await;
}

#[tokio::test]
async fn a_wrong_proof_of_a_lease_is_told() {
    let home = folder();
    let file = home.path().join("audit.log");
    let scene = scene(&file, |_| {}).await;
    let held = scene.send("taker", "POST /v1/locks/x/acquire", acquire("o")).await.body;
    let id = held["lease_id"].as_str().expect("an id").to_owned();
    let number = id.split('.').next().expect("a number").to_owned();
    let forged = format!("{number}.{}", "0".repeat(32));
    let proof =
        |id: &str, token: u64| json!({"owner_id": "o", "lease_id": id, "fencing_token": token});
    let mut renewal = proof(&id, 9);
    renewal["extend_by_ms"] = json!(1000);
    assert_eq!(scene.send("taker", "POST /v1/locks/x/renew", renewal).await.status, 409);
    let release = "POST /v1/locks/x/release";
    assert_eq!(scene.send("other", release, proof(&forged, 1)).await.status, 409);
    let several = json!({
        "owner_id": "o", "leases": [{"lock_name": "x", "lease_id": forged, "fencing_token": 1}],
    });
    assert_eq!(scene.send("other", "POST /v1/release", several).await.status, 409);
    // This lease id is unknown; for the next request the lease has ended. Neither counts as a wrong proof.
    let unknown = format!("99.{}", "0".repeat(32));
    assert_eq!(scene.send("taker", release, proof(&unknown, 1)).await.status, 409);
    assert_eq!(scene.send("taker", release, proof(&id, 1)).await.status, 200);
    assert_eq!(scene.send("taker", release, proof(&id, 1)).await.status, 409, "it is over");
    let told = of(&audit::files(&file)[2]);
    let told: Vec<_> = told
        .iter()
        .map(|line| {
            assert_eq!((&line["kind"], &line["lock"]), (&json!("refused"), &json!("x")));
            assert_eq!(line["outcome"], "proof-mismatch");
            (line["by"]["principal"].clone(), line["detail"]["operation"].clone())
        })
        .collect();
    let expected = [("key:taker", "renew"), ("key:other", "release"), ("key:other", "release")];
    assert_eq!(told, expected.map(|(by, operation)| (json!(by), json!(operation))));
    assert!(!std::fs::read_to_string(&file).expect("a file").contains(&"0".repeat(32)));
    scene.stop().await;
}
