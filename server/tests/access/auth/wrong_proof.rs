//! Tests that the use of another principal's proof writes a line to the audit files, even if the caller may not see the
//! lease.

use std::path::Path;

use hyper::Method;
use leasehold_server::audit::{self, Options};
use leasehold_testkit::{Value, folder, json};

use crate::auth::{NAMES, RULES, Scene};

const LOCKINFO: &str = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype>\
    </lockinfo>";

async fn scene(file: &Path) -> Scene {
    let options = Options::new(file);
    Scene::with(RULES, &NAMES, |settings| settings.audit = Some(options)).await
}

/// Returns who used a wrong proof, for which operation, and on which lock.
fn mismatches(file: &Path) -> Vec<[Value; 3]> {
    let [_, _, refusals, _] = audit::files(file);
    let text = std::fs::read_to_string(refusals).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let wrong = lines.filter(|line| line["outcome"] == "proof-mismatch");
    let of = |line: Value| {
        [&line["by"]["principal"], &line["detail"]["operation"], &line["lock"]].map(Value::clone)
    };
    wrong.map(of).collect()
}

/// Checks the number of such lines, and the last one.
#[track_caller]
fn check(file: &Path, n: usize, [who, operation, lock]: [&str; 3]) {
    let told = mismatches(file);
    assert_eq!(told.len(), n, "{told:?}");
    let expected = [format!("key:{who}"), operation.into(), lock.into()].map(Value::from);
    assert_eq!(told.last(), Some(&expected), "{told:?}");
}

#[tokio::test]
async fn a_stolen_lease_id_is_told_of() {
    let home = folder();
    let file = home.path().join("audit.log");
    let scene = scene(&file).await;
    let lease = json!({
        "tenant_id": "t", "lock_key": "x", "request_id": "r", "owner_id": "taker", "ttl_seconds": 60,
    });
    let taken = scene.send("taker", "POST /leases/acquire", lease).await;
    let id = taken.text_of("lease_id");
    // `other` may see the lease, `nothing` may not.
    for (n, who) in [(0, "other"), (2, "nothing")] {
        let release = json!({"request_id": "r2", "owner_id": who});
        let mut renewal = release.clone();
        renewal["ttl_seconds"] = json!(60);
        let renewed = scene.send(who, &format!("POST /leases/{id}/renew"), renewal).await;
        assert!([404, 401, 409].contains(&renewed.status), "{renewed:?}");
        check(&file, n + 1, [who, "renew", "x"]);
        scene.send(who, &format!("POST /leases/{id}/release"), release).await;
        check(&file, n + 2, [who, "release", "x"]);
    }
    let unknown = format!("99.{}", "0".repeat(32));
    let release = json!({"request_id": "r3", "owner_id": "nothing"});
    let line = format!("POST /leases/{unknown}/release");
    assert_eq!(scene.send("nothing", &line, release).await.status, 404);
    assert_eq!(mismatches(&file).len(), 4, "there is no such lease");
    scene.stop().await;
}

#[tokio::test]
async fn a_change_of_the_claim_of_another_is_told_of() {
    let home = folder();
    let file = home.path().join("audit.log");
    let scene = scene(&file).await;
    let claim = json!({"resource": "c", "timeout": 60});
    let url = scene.send("taker", "POST /v1/claims", claim).await.text_of("url");
    let line = format!("PATCH {}", &url[url.find("/v1/").expect("an address")..]);
    let mut n = 0;
    for (who, status, expected, operation) in [
        ("nothing", "released", 404, "release"),
        ("nothing", "withdrawn", 404, "revoke"),
        ("reader", "released", 403, "release"),
        ("reader", "withdrawn", 403, "revoke"),
    ] {
        let refused = scene.send(who, &line, json!({"status": status})).await;
        assert_eq!(refused.status, expected, "{who}: {refused:?}");
        n += 1;
        check(&file, n, [who, operation, "c"]);
    }
    assert_eq!(scene.send("nothing", "PATCH /v1/claims/99", json!({"ttl": 1})).await.status, 404);
    assert_eq!(mismatches(&file).len(), n, "there is no such claim");
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_token_of_webdav_is_told_of() {
    let home = folder();
    let file = home.path().join("audit.log");
    let scene = scene(&file).await;
    let ask = async |who: &str, method: &str, header: (&str, &str), body: &str| {
        let proof = scene.proof(who).remove(0).1;
        let headers = [("authorization", proof.as_str()), header];
        let method: Method = method.parse().expect("a method");
        let sent = scene.local.client.send_with(method, "/dav/f.txt", &headers, body.to_owned());
        sent.await.expect("an answer")
    };
    let any = ("x-nothing", "");
    assert_eq!(ask("file-writer", "UNLOCK", ("lock-token", "<x>"), "").await.status, 409);
    assert_eq!(mismatches(&file).len(), 0, "there is no lock");
    let locked = ask("file-writer", "LOCK", any, LOCKINFO).await;
    let token = locked.headers["lock-token"].to_str().expect("a token").to_owned();
    let (wrong, list) = ("<opaquelocktoken:1>", format!("({token})"));
    for (n, who, method, header, status, operation) in [
        (1, "file-writer", "UNLOCK", ("lock-token", wrong), 409, "release"),
        // This principal may not even see the lock.
        (2, "nothing", "UNLOCK", ("lock-token", token.as_str()), 409, "release"),
        (3, "other", "UNLOCK", ("lock-token", token.as_str()), 403, "release"),
        (4, "other", "LOCK", ("if", list.as_str()), 412, "renew"),
        (5, "file-writer", "LOCK", ("if", "(<opaquelocktoken:1>)"), 412, "renew"),
        (6, "other", "PUT", ("if", list.as_str()), 423, "write"),
        (7, "file-writer", "PUT", ("if", "(<opaquelocktoken:1>)"), 412, "write"),
    ] {
        let refused = ask(who, method, header, "").await;
        assert_eq!(refused.status, status, "{n}: {refused:?}");
        check(&file, n, [who, operation, "/f.txt"]);
    }
    assert_eq!(ask("file-writer", "LOCK", ("if", &list), "").await.status, 200);
    let either = format!("{list} (Not <DAV:no-lock>)");
    assert_eq!(ask("file-writer", "PUT", ("if", &either), "x").await.status, 204);
    assert_eq!(ask("file-writer", "UNLOCK", ("lock-token", &token), "").await.status, 204);
    assert_eq!(mismatches(&file).len(), 7);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_id_of_terraform_is_told_of() {
    let home = folder();
    let file = home.path().join("audit.log");
    let scene = scene(&file).await;
    let (right, wrong) = (json!({"ID": "right-id"}), json!({"ID": "wrong-id"}));
    let unlock = "UNLOCK /terraform/prod";
    assert_eq!(scene.send("file-writer", unlock, wrong.clone()).await.status, 200);
    assert_eq!(mismatches(&file).len(), 0, "there is no lock");
    assert_eq!(scene.send("file-writer", "LOCK /terraform/prod", right.clone()).await.status, 200);
    let write = "POST /terraform/prod?ID=wrong-id";
    for (n, who, line, body, operation) in [
        (1, "file-writer", unlock, &wrong, "release"),
        (2, "other", unlock, &right, "release"),
        (3, "nothing", unlock, &right, "release"),
        (4, "file-writer", write, &json!({}), "write"),
    ] {
        assert_eq!(scene.send(who, line, body.clone()).await.status, 409, "{n}");
        check(&file, n, [who, operation, "prod"]);
    }
    let write = "POST /terraform/prod?ID=right-id";
    assert_eq!(scene.send("file-writer", write, json!({})).await.status, 200);
    assert_eq!(scene.send("file-writer", unlock, right).await.status, 200);
    assert_eq!(mismatches(&file).len(), 4);
    let text = std::fs::read_to_string(&audit::files(&file)[2]).expect("a file");
    assert!(!text.contains("right-id"), "no proof is written");
    scene.stop().await;
}
