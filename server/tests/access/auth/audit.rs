//! Tests of the audit file: which principal did what, what was refused, and what happens if the file cannot be written.

use std::path::{Path, PathBuf};

use leasehold_server::audit::{OnFailure, Options, files};
use leasehold_testkit::{Local, Value, folder, json, settings};

use crate::auth::{NAMES, RULES, Scene, acquire};

/// Returns the lines of all audit files, the operators' file first. The line for the server start is in two of the
/// files and is returned once.
pub(crate) fn lines(file: &Path) -> Vec<Value> {
    let [access, admin, refusals, unknown] = files(file);
    let mut all = Vec::<Value>::new();
    for path in [admin, access, refusals, unknown] {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let is_plain = |c: char| (' '..='~').contains(&c) || c == '\n';
        assert!(text.chars().all(is_plain), "only printable ASCII: {text:?}");
        let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"));
        let lines: Vec<_> = text.lines().map(line).filter(|line| !all.contains(line)).collect();
        all.extend(lines);
    }
    all
}

/// Returns the audit lines of this kind and outcome.
fn found(file: &Path, kind: &str, outcome: &str) -> Vec<Value> {
    let is_it = |line: &Value| line["kind"] == kind && line["outcome"] == outcome;
    lines(file).into_iter().filter(is_it).collect()
}

async fn scene(file: &Path, rules: &str, change: impl FnOnce(&mut Options)) -> Scene {
    let mut options = Options::new(file);
    change(&mut options);
    Scene::with(rules, &NAMES, |settings| settings.audit = Some(options)).await
}

#[tokio::test]
async fn what_happened_to_a_lease_is_told_with_who_did_it() {
    let home = folder();
    let file = home.path().join("audit.log");
    let scene = scene(&file, RULES, |_| {}).await;
    let held = scene.send("taker", "POST /v1/locks/x/acquire", acquire("laptop")).await.body;
    let granted = found(&file, "lease", "granted").remove(0);
    assert_eq!((&granted["namespace"], &granted["lock"]), (&json!("default"), &json!("x")));
    let holder = &granted["holder"];
    assert_eq!(
        (&holder["principal"], &holder["owner_id"]),
        (&json!("key:taker"), &json!("laptop"))
    );
    assert_eq!((&holder["token"], &holder["dialect"]), (&held["fencing_token"], &json!("locks")));
    let by = json!({
        "principal": "key:taker", "credential": scene.keys["taker"].id, "rule": "takers", "peer": "127.0.0.1",
    });
    assert_eq!(granted["by"], by);
    // The principal that revokes a lease is logged apart from the holder. The reason is logged as the client's claim,
    // cut to a safe length.
    let reason = format!("because \u{1b}[2J\u{202e} {}", "long".repeat(200));
    scene.send("revoker", "POST /v1/locks/x/revoke", json!({"reason": reason})).await;
    let revoked = found(&file, "lease", "revoked").remove(0);
    assert_eq!(revoked["by"]["principal"], "key:revoker");
    assert_eq!(revoked["by"]["rule"], "revokers");
    assert_eq!(revoked["holder"]["principal"], "key:taker");
    let claimed = revoked["claimed"]["reason"].as_str().expect("a reason");
    assert!(claimed.starts_with("because \u{1b}[2J\u{202e} long") && claimed.len() < 300);
    let act = found(&file, "admin", "done").into_iter().find(|line| line["act"] == "revoke");
    assert_eq!(act.expect("the act")["by"]["principal"], "key:revoker");
    // An expiry has no principal behind it.
    let mut short = acquire("laptop");
    short["ttl_ms"] = json!(1);
    scene.send("taker", "POST /v1/locks/y/acquire", short).await;
    scene.local.advance_ms(10);
    scene.send("other", "POST /v1/locks/y/acquire", acquire("o")).await;
    let expired = found(&file, "lease", "expired").remove(0);
    assert_eq!(
        (&expired["by"], &expired["holder"]["principal"]),
        (&Value::Null, &json!("key:taker"))
    );
    let ids: std::collections::BTreeSet<_> =
        lines(&file).iter().filter_map(|line| line["id"].as_str().map(str::to_owned)).collect();
    assert_eq!(ids.len(), found_all(&file, "lease"), "each has a name of its own");
    scene.stop().await;
}

fn found_all(file: &Path, kind: &str) -> usize {
    lines(file).iter().filter(|line| line["kind"] == kind).count()
}

#[tokio::test]
async fn who_was_refused_is_told_with_what_they_wanted() {
    let home = folder();
    let file = home.path().join("audit.log");
    let rules = format!("{RULES}[[quota]]\nwho = [\"key:nothing\"]\nrequests-per-second = 2\n");
    let scene = scene(&file, &rules, |_| {}).await;
    let proof = scene.proof("taker").remove(0);
    let id = "r-1 \u{9b}";
    let headers = [(proof.0, proof.1.as_str()), ("x-request-id", id)];
    let body = json!({"reason": "r"}).to_string();
    assert_eq!(scene.status(&headers, "POST /v1/locks/x/revoke", &body).await, 403);
    let refused = found(&file, "refused", "forbidden").remove(0);
    assert_eq!((&refused["status"], &refused["right"]), (&json!(403), &json!("revoke")));
    assert_eq!((&refused["namespace"], &refused["lock"]), (&json!("default"), &json!("x")));
    assert_eq!(refused["route"], "/v1/locks/{lock}/revoke");
    assert_eq!(refused["by"]["credential"], scene.keys["taker"].id.as_str());
    assert!(refused["claimed"]["request_id"].as_str().expect("an id").starts_with("r-1 "));
    // Requests without a key and with a wrong key are refused, and the credential is not written to the file.
    let wrong = "lh_abc_deadbeefdeadbeefdeadbeef";
    assert_eq!(scene.status(&[], "GET /v1/locks/x", "").await, 401);
    let header = format!("Bearer {wrong}");
    assert_eq!(scene.status(&[("authorization", &header)], "GET /v1/locks/x", "").await, 401);
    assert_eq!(found(&file, "refused", "unauthenticated").len(), 2);
    assert!(!std::fs::read_to_string(&file).expect("a file").contains("deadbeef"));
    for _ in 0..3 {
        scene.send("nothing", "GET /v1/locks/x", Value::Null).await;
    }
    assert_eq!(found(&file, "refused", "limited").len(), 1);
    // Refusals are logged in every dialect.
    for (who, line, body) in [
        ("reader", "POST /v1/claims", json!({"resource": "c", "timeout": 1})),
        ("reader", "POST /lock?client=c&job=j", Value::Null),
        ("file-reader", "DELETE /admin/locks/f.txt", Value::Null),
    ] {
        let n_before = found(&file, "refused", "forbidden").len();
        assert_eq!(scene.send(who, line, body).await.status, 403, "{line}");
        let refused = found(&file, "refused", "forbidden");
        assert_eq!(refused.len(), n_before + 1, "{line}");
        assert!(refused[n_before]["lock"].is_string(), "{line}: {:?}", refused[n_before]);
    }
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_admins_do_is_told() {
    let home = folder();
    let file = home.path().join("audit.log");
    let scene = scene(&file, RULES, |_| {}).await;
    scene.send("admin", "PUT /v1/admin/maintenance", json!({"on": true})).await;
    scene.send("admin", "PUT /v1/admin/maintenance", json!({"on": false})).await;
    scene.send("taker", "POST /v1/locks/x/acquire", acquire("o")).await;
    scene.send("admin", "POST /v1/revoke", json!({"owner": "o", "reason": "gone"})).await;
    let lease = json!({
        "tenant_id": "t", "lock_key": "x", "request_id": "r", "owner_id": "taker", "ttl_seconds": 10,
    });
    scene.send("taker", "POST /leases/acquire", lease).await;
    let force = json!({"tenant_id": "t", "actor": "bob", "reason": "why"});
    scene.send("revoker", "POST /locks/x/force-release", force).await;
    std::fs::write(scene.file("auth.toml"), format!("{RULES}# changed\n")).expect("a file");
    scene.local.server.reload();
    let act = |name: &str| {
        let acts = found(&file, "admin", "done");
        acts.into_iter().filter(|line| line["act"] == name).collect::<Vec<_>>()
    };
    scene.local.until("it is told", async |_| !act("auth-reload").is_empty()).await;
    assert_eq!(act("start").len(), 1);
    let maintenance = act("maintenance");
    assert_eq!(maintenance[0]["detail"]["on"], true);
    assert_eq!(maintenance[1]["detail"]["on"], false);
    assert_eq!(maintenance[0]["by"]["principal"], "key:admin");
    let revoked = act("revoke");
    assert_eq!(revoked[0]["detail"]["n"], 1, "{revoked:?}");
    assert_eq!(revoked[0]["claimed"]["reason"], "gone");
    assert_eq!(revoked[1]["claimed"], json!({"actor": "bob", "reason": "why"}));
    assert_eq!(revoked[1]["by"]["principal"], "key:revoker");
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backups_sessions_and_locks_of_files_that_admins_end_are_told() {
    let home = folder();
    let file = home.path().join("audit.log");
    let (data, dir) = (home.path().join("data"), home.path().join("backups"));
    std::fs::create_dir(&dir).expect("a folder");
    let scene = Scene::with(RULES, &NAMES, |settings| {
        settings.audit = Some(Options::new(&file));
        settings.data = Some(data);
        settings.backup = Some(leasehold_server::backup::Options { dir, every: None, n_keep: 2 });
    })
    .await;
    let taken = scene.send("admin", "POST /v1/admin/backup", Value::Null).await;
    assert_eq!(taken.status, 201, "{taken:?}");
    let session = json!({"owner_id": "o", "ttl_ms": 60_000});
    assert_eq!(scene.send("taker", "POST /v1/sessions", session).await.status, 201);
    let sessions = scene.send("admin", "GET /v1/admin/sessions", Value::Null).await.body;
    let number = sessions["sessions"][0]["number"].clone();
    let end = format!("DELETE /v1/admin/sessions/{number}");
    assert_eq!(scene.send("admin", &end, Value::Null).await.status, 204);
    let editor = scene.send("file-writer", "POST /auth/session", Value::Null).await;
    let bearer = format!("Bearer {}", editor.text_of("sessionId"));
    let lock = "GET /f.txt?lock=acquire";
    assert_eq!(scene.status(&[("authorization", &bearer)], lock, "").await, 200);
    let revoked = scene.send("revoker", "DELETE /admin/locks/f.txt", Value::Null).await;
    assert_eq!(revoked.status, 200, "{revoked:?}");
    let acts: Vec<_> = found(&file, "admin", "done")
        .into_iter()
        .map(|act| (act["act"].clone(), act["by"]["principal"].clone(), act))
        .collect();
    let names: Vec<_> = acts.iter().map(|(act, by, _)| (act.clone(), by.clone())).collect();
    let expected = [
        ("start", "server"),
        ("backup", "key:admin"),
        ("end-session", "key:admin"),
        ("revoke", "key:revoker"),
    ];
    assert_eq!(names, expected.map(|(act, by)| (json!(act), json!(by))));
    assert_eq!(acts[1].2["detail"]["name"], taken.text_of("name"));
    assert_eq!(acts[2].2["detail"]["session"], number);
    assert_eq!(acts[3].2["lock"], "/f.txt");
    let granted = found(&file, "lease", "granted").remove(0);
    assert_eq!(granted["by"]["rule"], "file writers", "{granted}");
    assert_eq!(granted["by"]["credential"], scene.keys["file-writer"].id.as_str());
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_cannot_be_written_stops_changes_or_is_counted() {
    for failure in [OnFailure::Refuse, OnFailure::Warn] {
        let home = folder();
        let (link, real) = (home.path().join("audit.log"), home.path().join("real.log"));
        let point_to = |to: &Path| point(&link, to);
        point_to(&real);
        let scene = scene(&link, RULES, |options| options.failure = failure).await;
        let held = scene.send("taker", "POST /v1/locks/x/acquire", acquire("o")).await.body;
        assert_eq!(scene.send("taker", STICKY, Value::Null).await.status, 200);
        let claim = format!("PATCH {}", waiting_claim(&scene).await);
        point_to(Path::new("/dev/full"));
        scene.local.server.reload();
        // This acquire succeeds: it takes effect before the failed audit write is noticed. Later requests are affected.
        assert_eq!(scene.send("taker", "POST /v1/locks/y/acquire", acquire("o")).await.status, 200);
        let proof = json!({"owner_id": "o", "lease_id": held["lease_id"], "fencing_token": 1});
        let next = scene.send("taker", "POST /v1/locks/z/acquire", acquire("o")).await;
        let mut renewal = proof.clone();
        renewal["extend_by_ms"] = json!(1000);
        let renewed = scene.send("taker", "POST /v1/locks/x/renew", renewal).await;
        let revoked =
            scene.send("revoker", "POST /v1/locks/x/revoke", json!({"reason": "test"})).await;
        let again = scene.send("taker", STICKY, Value::Null).await;
        let withdrawn = scene.send("taker", &claim, json!({"status": "withdrawn"})).await;
        let left = scene.send("taker", "DELETE /lock?client=c", Value::Null).await;
        let reacquired = scene.send("taker", STICKY, Value::Null).await;
        let metrics = scene.send("admin", "GET /metrics", Value::Null).await.text;
        assert!(metrics.contains("leasehold_audit_failing{} 1"), "{metrics}");
        let maintenance =
            scene.send("admin", "PUT /v1/admin/maintenance", json!({"on": false})).await;
        // Even while the audit file cannot be written, holders can renew and release.
        assert_eq!((renewed.status, again.status), (200, 200), "{renewed:?} {again:?}");
        assert_eq!((withdrawn.status, left.status), (204, 200), "{withdrawn:?} {left:?}");
        let given = scene.send("taker", "POST /v1/locks/x/release", proof).await;
        if failure == OnFailure::Refuse {
            assert_eq!((next.status, next.text_of("code").as_str()), (503, "AUDIT_FAILED"));
            assert_eq!((revoked.status, maintenance.status), (503, 503), "{revoked:?}");
            assert_eq!((given.status, reacquired.status), (200, 503), "{given:?} {reacquired:?}");
            assert_eq!(scene.send("reader", "GET /v1/locks/x", Value::Null).await.status, 200);
        } else {
            assert_eq!((next.status, revoked.status, maintenance.status), (200, 200, 200));
            assert_eq!((given.status, reacquired.status), (409, 200), "it was taken away");
        }
        point_to(&real);
        scene
            .local
            .until("it goes on", async |_| {
                let taken = scene.send("taker", "POST /v1/locks/w/acquire", acquire("o")).await;
                taken.status == 200
            })
            .await;
        scene.local.until("it is written", async |_| locks(&real).contains(&"w".into())).await;
        // Releases made during the outage are logged later: the sticky lock, and `x` unless it was revoked.
        let n_released = if failure == OnFailure::Refuse { 2 } else { 1 };
        assert_eq!(found(&real, "lease", "released").len(), n_released, "{failure}");
        // Once the file can be written again, no grant is missing and none is logged twice.
        let expected: &[&str] =
            if failure == OnFailure::Refuse { &["x", "y", "w"] } else { &["x", "y", "z", "w"] };
        let mut told = locks(&real);
        told.retain(|lock| "xyzw".contains(lock.as_str()));
        assert_eq!(told, expected, "{failure}");
        scene.stop().await;
    }
}

/// Points the symbolic link at a new target, atomically.
fn point(link: &Path, to: &Path) {
    let next = link.with_extension("next");
    std::os::unix::fs::symlink(to, &next).expect("a link");
    std::fs::rename(&next, link).expect("a link");
}

/// Request that acquires or renews a sticky lock.
const STICKY: &str = "POST /lock?client=c&ttl=60s";

/// Makes a claim that waits and returns its path.
async fn waiting_claim(scene: &Scene) -> String {
    let claim = json!({"resource": "r", "timeout": 60});
    scene.send("other", "POST /v1/claims", claim.clone()).await;
    let waits = scene.send("taker", "POST /v1/claims", claim).await;
    assert_eq!(waits.status, 202, "{waits:?}");
    let url = waits.text_of("url");
    url[url.find("/v1/").expect("an address")..].to_owned()
}

/// Returns the names of the locks that were granted, in order.
fn locks(file: &Path) -> Vec<String> {
    let granted = found(file, "lease", "granted");
    granted.iter().map(|line| line["lock"].as_str().expect("a lock").to_owned()).collect()
}

#[tokio::test]
async fn a_large_file_is_rotated_and_a_moved_file_is_reopened() {
    let home = folder();
    let file = home.path().join("audit.log");
    let scene = scene(&file, RULES, |options| {
        options.bytes_max = 4096;
        options.keep = 3;
    })
    .await;
    let aside = |n: usize| -> PathBuf { home.path().join(format!("audit.log.{n}")) };
    for n in 0..60 {
        let line = format!("POST /v1/locks/l{n}/acquire");
        assert_eq!(scene.send("taker", &line, acquire("o")).await.status, 200);
    }
    let sizes = [file.clone(), aside(1), aside(2), aside(3)].map(|path| {
        let facts =
            std::fs::metadata(&path).unwrap_or_else(|_| panic!("{} is gone", path.display()));
        facts.len()
    });
    assert!(sizes.iter().all(|size| *size <= 4096), "{sizes:?}");
    assert!(!aside(4).exists(), "the oldest goes");
    // The rotated files together contain each lock at most once, in order.
    let all: Vec<_> =
        [aside(3), aside(2), aside(1), file.clone()].iter().flat_map(|f| locks(f)).collect();
    let n_first = 60 - all.len();
    let expected: Vec<_> = (n_first..60).map(|n| format!("l{n}")).collect();
    assert_eq!(all, expected);
    // An external tool can rotate the file too, and signals that with SIGHUP.
    let moved = home.path().join("moved.log");
    std::fs::rename(&file, &moved).expect("a file");
    scene.send("taker", "POST /v1/locks/before/acquire", acquire("o")).await;
    scene.local.server.reload();
    scene.send("taker", "POST /v1/locks/after/acquire", acquire("o")).await;
    assert_eq!(locks(&moved).last().map(String::as_str), Some("before"));
    assert_eq!(locks(&file), ["after"]);
    scene.stop().await;
}

#[tokio::test]
async fn a_flood_of_refusals_is_cut_short() {
    let home = folder();
    let file = home.path().join("audit.log");
    let scene = scene(&file, RULES, |options| options.refusals_per_second = 3).await;
    scene.local.clock.set_wall_ms(1_000_000_000_000);
    for _ in 0..10 {
        assert_eq!(scene.status(&[], "GET /v1/locks/x", "").await, 401);
    }
    assert_eq!(found_all(&file, "refused"), 3);
    scene.local.advance_ms(1000);
    assert_eq!(scene.status(&[], "GET /v1/locks/x", "").await, 401);
    assert_eq!(found_all(&file, "refused"), 4);
    let left_out = lines(&file).into_iter().find(|line| line["act"] == "refusals left out");
    assert_eq!(left_out.expect("a line")["detail"]["n"], 7);
    scene.stop().await;
}

#[tokio::test]
async fn without_authentication_the_journal_is_as_long_with_an_audit_file_as_without() {
    let mut n_bytes = Vec::new();
    for with_audit in [false, true] {
        let home = folder();
        let mut settings = settings(Some(&home.path().join("data")));
        let file = home.path().join("audit.log");
        // A fold would occasionally keep the database busy.
        settings.fold_interval = std::time::Duration::from_secs(3600);
        settings.audit = with_audit.then(|| Options::new(&file));
        let local = Local::start(settings).await;
        let held = local.client.acquire("x", "o", 60_000, json!({})).await;
        assert_eq!(held.status, 200, "{held:?}");
        assert_eq!(local.client.release(&held, json!({})).await.status, 200);
        // A round is counted after its responses are sent, so this round shows up in the next read of the metrics.
        assert_eq!(local.client.get("/v1/locks/x").await.get("held"), false);
        let metrics = local.client.get("/metrics").await.text;
        let name = "leasehold_journal_written_bytes_total ";
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).expect("a number");
        n_bytes.push(line.to_owned());
        local.stop().await;
        if with_audit {
            let granted = found(&file, "lease", "granted").remove(0);
            assert_eq!(granted["by"], json!({"peer": "127.0.0.1"}));
        }
    }
    assert_eq!(n_bytes[0], n_bytes[1]);
}
