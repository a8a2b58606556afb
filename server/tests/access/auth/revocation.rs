//! Tests that ending another principal's lock writes a line to the operators' audit file, in every dialect.

use std::path::Path;

use leasehold_server::audit::{self, Options};
use leasehold_testkit::{Value, folder, json};

use crate::auth::{NAMES, RULES, Scene};

/// Returns the locks that operators revoked, and the principal that did so.
fn revoked(file: &Path) -> Vec<(Value, Value)> {
    let [_, admin, _, _] = audit::files(file);
    let text = std::fs::read_to_string(admin).expect("a file");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let revoked = lines.filter(|line| line["act"] == "revoke");
    revoked.map(|line| (line["lock"].clone(), line["by"]["principal"].clone())).collect()
}

/// Requests that end a claim and a Git LFS lock that a client holds.
struct Held {
    claim: String,
    unlock: String,
}

async fn held(scene: &Scene, who: &str, of_files: &str) -> Held {
    let claim = json!({"resource": "c", "timeout": 60});
    let claim = scene.send(who, "POST /v1/claims", claim).await;
    assert_eq!(claim.status, 201, "{claim:?}");
    let url = claim.text_of("url");
    let path = &url[url.find("/v1/").expect("an address")..];
    let state = scene.send(of_files, "LOCK /terraform/prod", json!({"ID": "an-id"})).await;
    assert_eq!(state.status, 200, "{state:?}");
    let lock = scene.send(of_files, "POST /lfs/team/app/locks", json!({"path": "x"})).await;
    assert_eq!(lock.status, 201, "{lock:?}");
    let id = lock.get("lock")["id"].as_str().expect("an id").to_owned();
    Held { claim: format!("PATCH {path}"), unlock: format!("POST /lfs/team/app/locks/{id}/unlock") }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoking_another_principals_lock_is_recorded() {
    let home = folder();
    let file = home.path().join("audit.log");
    let options = Options::new(&file);
    let scene = Scene::with(RULES, &NAMES, |settings| settings.audit = Some(options)).await;
    let force = json!({"force": true});
    for (who, of_files, is_told) in [("admin", "admin", false), ("taker", "file-writer", true)] {
        let Held { claim, unlock } = held(&scene, who, of_files).await;
        for (line, body, status, lock) in [
            (&*claim, json!({"status": "revoked"}), 204, "c"),
            ("UNLOCK /terraform/prod", Value::Null, 200, "prod"),
            (&*unlock, force.clone(), 200, "team/app/x"),
        ] {
            let ended = scene.send("admin", line, body).await;
            assert_eq!(ended.status, status, "{line}: {ended:?}");
            let expected = (json!(lock), json!("key:admin"));
            let told = revoked(&file);
            assert_eq!(told.last() == Some(&expected), is_told, "{line}: {told:?}");
        }
    }
    assert_eq!(revoked(&file).len(), 3);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_its_limit_an_operator_ends_only_its_own_locks() {
    let quota = "[[quota]]\nwho = [\"key:admin\"]\nrequests-per-second = 3\n";
    for is_own in [true, false] {
        let scene = Scene::with(&format!("{RULES}{quota}"), &NAMES, |_| {}).await;
        let (who, of_files) = if is_own { ("admin", "admin") } else { ("taker", "file-writer") };
        let Held { claim, unlock } = held(&scene, who, of_files).await;
        let send = async |line: &str, body: Value| scene.send("admin", line, body).await.status;
        while send("GET /v1/locks/c", Value::Null).await == 200 {}
        let either = |own: u16| if is_own { own } else { 429 };
        assert_eq!(send(&claim, json!({"status": "active"})).await, 429);
        assert_eq!(send(&claim, json!({"ttl": 60})).await, either(200));
        assert_eq!(send(&claim, json!({"status": "revoked"})).await, either(204));
        assert_eq!(send("UNLOCK /terraform/prod", Value::Null).await, either(200));
        assert_eq!(send(&unlock, json!({"force": true})).await, either(200));
        scene.stop().await;
    }
}
