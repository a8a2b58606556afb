//! Helpers that check how other dialects show a lock whose owner string is its proof.

use leasehold_testkit::{Local, Method, Response, json};

const LFS: (&str, &str) = ("content-type", "application/vnd.git-lfs+json");
const LOCKINFO: &str = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype>\
    </lockinfo>";
const DISCOVERY: &str = "<propfind xmlns='DAV:'><prop><lockdiscovery/></prop></propfind>";

/// Returns what the dialects that lock by name show of this lock.
pub(crate) async fn by_name(local: &Local, namespace: &str, name: &str) -> Vec<Response> {
    let revoke = json!({"tenant_id": namespace, "actor": "ann"}).to_string();
    let admin = [("x-role", "ADMIN"), ("content-type", "application/json")];
    vec![
        send(local, &format!("GET /locks/{name}?tenant_id={namespace}"), &[], "").await,
        send(local, &format!("GET /lock?job={name}"), &[], "").await,
        send(local, &format!("GET /lock/page?job={name}"), &[], "").await,
        send(local, &format!("POST /lock?client=c&job={name}"), &[], "").await,
        send(local, &format!("POST /locks/{name}/force-release"), &admin, &revoke).await,
    ]
}

/// Returns what the file dialects show of this lock to a client that wants the file.
pub(crate) async fn by_file(local: &Local, path: &str) -> Vec<Response> {
    let opened = send(local, "POST /auth/session", &[], "").await;
    let bearer = format!("Bearer {}", opened.text_of("sessionId"));
    let session = [("authorization", bearer.as_str())];
    vec![
        send(local, &format!("PUT {path}"), &session, "x").await,
        send(local, &format!("GET {path}?lock=acquire"), &session, "").await,
        send(local, "GET /admin/locks", &[], "").await,
        send(local, &format!("PUT /dav{path}"), &[], "x").await,
        send(local, &format!("LOCK /dav{path}"), &[], LOCKINFO).await,
        send(local, &format!("PROPFIND /dav{path}"), &[("depth", "0")], DISCOVERY).await,
    ]
}

/// Returns what Git LFS shows of this lock.
pub(crate) async fn by_repository(local: &Local, repository: &str, path: &str) -> Vec<Response> {
    let (lock, verify) = (json!({"path": path}).to_string(), json!({}).to_string());
    vec![
        send(local, &format!("POST /lfs/{repository}/locks"), &[LFS], &lock).await,
        send(local, &format!("GET /lfs/{repository}/locks"), &[], "").await,
        send(local, &format!("POST /lfs/{repository}/locks/verify"), &[LFS], &verify).await,
    ]
}

/// Checks that each response names the holder by one of `names`, and that none contains the secret part.
#[track_caller]
pub(crate) fn check(shown: &[Response], names: &[&str], secret: &str) {
    for answer in shown {
        assert!(names.iter().any(|name| answer.text.contains(name)), "{answer:?}");
        assert!(!answer.text.contains(secret), "{answer:?}");
    }
}

async fn send(local: &Local, line: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let (method, path) = line.split_once(' ').expect("a method and a path");
    let method: Method = method.parse().expect("a method");
    let sent = local.client.send_with(method, path, headers, body.to_owned()).await;
    sent.expect("an answer")
}
