//! The operations over HTTP: those of the contract, methods that OpenAPI does not know, and the pages of the console.

use leasehold_testkit::{Value, json};

use super::Need::{self, *};
use super::{PRINCIPALS, allows};
use crate::auth::Scene;

type Line = (&'static str, Need, Value);

/// Returns every route of the contract with its requirement and a valid body.
fn of_contract() -> Vec<Line> {
    [few(), of_locks(), of_claims_and_files(), of_terraform(), of_lfs(), of_dav()].concat()
}

/// Returns the operations with methods that OpenAPI does not know, or with another right for another body.
fn of_other_methods() -> Vec<Line> {
    vec![
        (
            "post /lfs/{repository}/objects/batch",
            FilesWrite,
            json!({"operation": "upload", "objects": []}),
        ),
        ("lock /terraform/{state}", FilesWrite, json!({"ID": "i", "Who": "me"})),
        ("unlock /terraform/{state}", Own, json!({"ID": "i", "Who": "me"})),
        ("options /dav/{who}.txt", Authenticated, Value::Null),
        ("propfind /dav/{who}.txt", FilesRead, Value::Null),
        ("proppatch /dav/{who}.txt", FilesWrite, json!(PATCH)),
        ("mkcol /dav/folder-{who}", FilesWrite, Value::Null),
        ("copy /dav/{who}.txt", FilesWrite, Value::Null),
        ("lock /dav/locked-{who}.txt", FilesWrite, json!(EXCLUSIVE)),
        ("unlock /dav/{who}.txt", Own, Value::Null),
        ("move /dav/{who}.txt", FilesWrite, Value::Null),
    ]
}

const PATCH: &str =
    "<propertyupdate xmlns='DAV:'><set><prop><x xmlns='urn:x'>1</x></prop></set></propertyupdate>";
const EXCLUSIVE: &str = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope>\
                         <locktype><write/></locktype></lockinfo>";

/// Returns the pages of the console. Without a credential, they redirect to the sign-in page.
fn of_console() -> Vec<Line> {
    let page = |line| (line, Page, Value::Null);
    let of = |line, need| (line, need, Value::Null);
    vec![
        page("get /console/cluster"),
        page("get /console/take"),
        of("get /console?namespace=default", Read),
        of("get /console/lock?namespace=default&name=x", Read),
        of("get /console/live?namespace=default&name=x", Read),
        of("get /console/sessions", Admin),
        of("get /console/sessions/end?number=1", Admin),
        of("get /console/files", FilesRead),
    ]
}

fn acquire() -> Value {
    json!({"owner_id": "o", "ttl_ms": 1000})
}

fn few() -> Vec<Line> {
    vec![
        ("get /healthz", Nothing, Value::Null),
        ("get /livez", Nothing, Value::Null),
        ("get /readyz", Nothing, Value::Null),
        ("get /leaderz", Nothing, Value::Null),
        ("get /health", Nothing, Value::Null),
        ("get /docs", Authenticated, Value::Null),
        ("get /docs/docs.css", Authenticated, Value::Null),
        ("get /docs/docs.js", Authenticated, Value::Null),
        ("get /openapi.json", Authenticated, Value::Null),
        ("get /metrics", ReadAll, Value::Null),
        ("post /v1/revoke", Revoke, json!({"owner": "o", "reason": "because"})),
        ("post /v1/fence/check", Read, json!({"lock_name": "x", "fencing_token": 1})),
        ("post /v1/sessions", Acquire, acquire()),
        ("get /v1/sessions/{session}", Own, Value::Null),
        ("delete /v1/sessions/{session}", Own, Value::Null),
        ("post /v1/sessions/{session}/keepalive", Own, Value::Null),
        ("post /v1/admin/backup", Admin, Value::Null),
        ("get /v1/admin/auth", Admin, Value::Null),
        ("get /v1/admin/maintenance", Admin, Value::Null),
        ("put /v1/admin/maintenance", Admin, json!({"on": false})),
        ("get /v1/admin/sessions", Admin, Value::Null),
        ("delete /v1/admin/sessions/{number}", Admin, Value::Null),
        ("post /leases/acquire", Acquire, Value::Null),
        ("post /leases/{lease}/renew", Own, Value::Null),
        ("post /leases/{lease}/release", Own, Value::Null),
        ("get /locks/{lock}", Read, Value::Null),
        ("post /locks/{lock}/force-release", Revoke, json!({"tenant_id": "t", "actor": "me"})),
        ("get /lock", Read, Value::Null),
        ("post /lock", Acquire, Value::Null),
        ("delete /lock", Own, Value::Null),
        ("get /lock/page", Read, Value::Null),
        ("get /auth/session", Session, Value::Null),
        ("delete /auth/session", Session, Value::Null),
        ("post /auth/session", FilesRead, Value::Null),
        ("get /auth/sessions", Session, Value::Null),
        ("get /admin/locks", Revoke, Value::Null),
        ("delete /admin/locks/{path}", Revoke, Value::Null),
        ("get /", FilesRead, Value::Null),
    ]
}

/// Routes of the native dialect. Each exists with and without a namespace in its path.
fn of_locks() -> Vec<Line> {
    let lease = || json!({"owner_id": "o", "lease_id": LEASE, "fencing_token": 1});
    let held = || json!([{"lock_name": "x", "lease_id": LEASE, "fencing_token": 1}]);
    let with = |mut body: Value, name: &str, value: Value| {
        body[name] = value;
        body
    };
    let cancel = || json!({"owner_id": "o", "request_id": "r"});
    let revoke = || json!({"reason": "because"});
    let mut table = Vec::new();
    for place in ["/v1", "/v1/namespaces/{namespace}"] {
        let line = |line: &str| -> &'static str {
            let (method, rest) = line.split_once(' ').expect("a method");
            String::leak(format!("{method} {place}{rest}"))
        };
        let extend = |body| with(body, "extend_by_ms", json!(1000));
        let all = with(json!({"owner_id": "o"}), "leases", held());
        let wanted = with(acquire(), "locks", json!([{"lock_name": "x"}]));
        table.extend([
            (line("post /acquire"), Acquire, wanted),
            (line("post /renew"), Acquire, extend(all.clone())),
            (line("post /release"), Own, all),
            (line("post /cancel"), Own, cancel()),
            (line("get /events"), Read, Value::Null),
            (line("get /history"), Read, Value::Null),
            (line("get /locks"), Read, Value::Null),
            (line("get /locks/{lock}"), Read, Value::Null),
            (line("get /locks/{lock}/history"), Read, Value::Null),
            (line("post /locks/{lock}/acquire"), Acquire, acquire()),
            (line("post /locks/{lock}/renew"), Acquire, extend(lease())),
            (line("post /locks/{lock}/release"), Own, lease()),
            (line("post /locks/{lock}/revoke"), Revoke, revoke()),
            (line("post /locks/{lock}/cancel"), Own, cancel()),
            (line("post /locks/{lock}/watch"), Own, lease()),
        ]);
    }
    table
}

fn of_claims_and_files() -> Vec<Line> {
    let mut table = Vec::new();
    for slash in ["", "/"] {
        let line = |line: &str| -> &'static str { String::leak(format!("{line}{slash}")) };
        table.extend([
            (line("get /v1/claims"), Read, Value::Null),
            (line("post /v1/claims"), Acquire, json!({"resource": "x", "timeout": 1})),
            (line("get /v1/claims/{id}"), Own, Value::Null),
            (line("patch /v1/claims/{id}"), Own, json!({"status": "released"})),
            (line("put /v1/claims/{id}"), Own, json!({"status": "released"})),
        ]);
    }
    for path in ["/", "/{path}", "/files/{path}"] {
        let line = |method: &str| -> &'static str { String::leak(format!("{method} {path}")) };
        table.extend([
            (line("put"), Session, Value::Null),
            (line("delete"), Session, Value::Null),
            (line("post"), Session, Value::Null),
        ]);
        if path != "/" {
            table.push((line("get"), FilesRead, Value::Null));
        }
    }
    table
}

fn of_terraform() -> Vec<Line> {
    let info = || json!({"ID": "i", "Who": "me"});
    vec![
        ("get /terraform", FilesRead, Value::Null),
        ("get /terraform/{state}", FilesRead, Value::Null),
        ("post /terraform/{state}", FilesWrite, json!({"serial": 1})),
        ("put /terraform/{state}", FilesWrite, json!({"serial": 1})),
        ("post /terraform/{state}/lock", FilesWrite, info()),
        ("put /terraform/{state}/lock", FilesWrite, info()),
        ("delete /terraform/{state}/lock", Own, info()),
        ("get /terraform/{state}/versions", FilesRead, Value::Null),
        ("get /terraform/{state}/versions/{version}", FilesRead, Value::Null),
        ("post /terraform/{state}/versions/{version}/restore", FilesWrite, Value::Null),
    ]
}

fn of_lfs() -> Vec<Line> {
    let download = json!({"operation": "download", "objects": []});
    let nothing = json!({"oid": OID, "size": 0});
    vec![
        ("get /lfs/{repository}/locks", FilesRead, Value::Null),
        ("post /lfs/{repository}/locks", FilesWrite, json!({"path": "x.bin"})),
        ("post /lfs/{repository}/locks/verify", FilesRead, json!({})),
        ("post /lfs/{repository}/locks/{id}/unlock", Own, json!({"force": false})),
        ("post /lfs/{repository}/objects/batch", FilesRead, download),
        ("put /lfs/{repository}/objects/{oid}", Upload, Value::Null),
        ("get /lfs/{repository}/objects/{oid}", Download, Value::Null),
        ("post /lfs/{repository}/objects/{oid}/verify", Download, nothing),
    ]
}

/// SHA-256 of an empty object.
const OID: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn of_dav() -> Vec<Line> {
    vec![
        ("get /dav/{path}", FilesRead, Value::Null),
        ("put /dav/{path}", FilesWrite, json!("x")),
        ("delete /dav/{path}", FilesWrite, Value::Null),
    ]
}

const LEASE: &str = "1-00000000000000000000000000000000";

/// Turns a route of the contract into a request path, and returns a body if the route needs a special one.
fn address(method: &str, path: &str, who: &str) -> (String, Option<Value>) {
    let path = path
        .replace("{namespace}", "default")
        .replace("{lock}", "x")
        .replace("{session}", "0000")
        .replace("{number}", "7")
        .replace("{id}", "999")
        .replace("{lease}", LEASE)
        .replace("{path}", "missing.txt")
        .replace("{state}", "x")
        .replace("{repository}", "team/app")
        .replace("{oid}", OID)
        .replace("{version}", "1")
        .replace("{who}", if who.is_empty() { "anonymous" } else { who });
    match path.as_str() {
        "/lock" if method != "get" => ("/lock?client=c".into(), None),
        "/locks/x" => ("/locks/x?tenant_id=t".into(), None),
        "/leases/acquire" => {
            let body = json!({
                "tenant_id": "t", "lock_key": "x", "request_id": "r", "owner_id": who, "ttl_seconds": 10,
            });
            (path, Some(body))
        }
        _ if path.starts_with("/leases/") => {
            let body = json!({"request_id": "r", "owner_id": who});
            let body = if path.ends_with("renew") {
                json!({"request_id": "r", "owner_id": who, "ttl_seconds": 10})
            } else {
                body
            };
            (path, Some(body))
        }
        _ => (path, None),
    }
}

async fn routes(scene: &Scene) -> Vec<String> {
    let contract = scene.send("admin", "GET /openapi.json", Value::Null).await.body;
    let paths = contract["paths"].as_object().expect("paths").clone();
    let methods = ["get", "post", "put", "patch", "delete"];
    let of = |(path, operations): (String, Value)| {
        let known = methods.into_iter().filter(move |method| operations.get(method).is_some());
        known.map(move |method| format!("{method} {path}")).collect::<Vec<_>>()
    };
    paths.into_iter().flat_map(of).collect()
}

/// Returns the headers of a method of WebDAV.
fn headers(line: &str, who: &str) -> Vec<(&'static str, String)> {
    let who = if who.is_empty() { "anonymous" } else { who };
    let mut headers = Vec::new();
    if let Some((method @ ("copy" | "move"), _)) = line.split_once(" /dav/") {
        headers.push(("destination", format!("/dav/{method}-{who}.txt")));
    }
    if line.starts_with("propfind") || line.starts_with("lock /dav/") {
        headers.push(("depth", "0".into()));
    }
    if line.starts_with("unlock /dav/") {
        headers.push(("lock-token", "<urn:uuid:00000000-0000-0000-0000-000000000000>".into()));
    }
    headers
}

/// Returns the statuses allowed for this principal. Empty: the principal is let in, so neither 401 nor 403.
fn expected(route: &str, need: Need, who: &str) -> &'static [u16] {
    const IN: &[u16] = &[];
    let is_page = route.starts_with("get /console") && !route.starts_with("get /console/live");
    match (need, who) {
        (Nothing, _) => IN,
        (Download | Upload, "") => &[403],
        (_, "") if is_page => &[303],
        (_, "") => &[401],
        // An API key is not a files session.
        (Session, _) => &[401],
        _ if allows(who, need) => IN,
        _ => &[403],
    }
}

/// Sends the operation as this principal. Returns what is wrong with the answer.
async fn mistake(scene: &Scene, (route, need, body): &Line, who: &str) -> Option<String> {
    let (method, path) = route.split_once(' ').expect("a method");
    let (path, own_body) = address(method, path, who);
    let body = match own_body.unwrap_or(body.clone()) {
        Value::Null => String::new(),
        Value::String(text) => text,
        body => body.to_string(),
    };
    let line = format!("{} {path}", method.to_uppercase());
    let mut all = scene.proof(who);
    all.extend(headers(route, who));
    let all: Vec<_> = all.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let status = scene.status(&all, &line, &body).await;
    let expected = expected(route, *need, who);
    let is_right = match expected {
        [] => !matches!(status, 400 | 401 | 403 | 405 | 415 | 421 | 500),
        _ => expected.contains(&status),
    };
    // The principal is not the last holder of the sticky lock, which that dialect answers with 403.
    let is_no_holder = *route == "delete /lock" && status == 403 && !who.is_empty();
    let is_wrong = !is_right && !is_no_holder;
    is_wrong.then(|| format!("{line} as {who:?}: {status}, expected {expected:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_asks_for_its_right() {
    let scene = super::scene().await;
    let table = of_contract();
    let routes = routes(&scene).await;
    let unknown: Vec<_> =
        routes.iter().filter(|route| !table.iter().any(|(known, ..)| known == route)).collect();
    assert!(unknown.is_empty(), "routes without a rule: {unknown:?}");
    let gone: Vec<_> =
        table.iter().filter(|(known, ..)| !routes.iter().any(|route| route == known)).collect();
    assert!(gone.is_empty(), "rules without a route: {gone:?}");
    let mut wrong = Vec::new();
    for (who, _) in PRINCIPALS {
        let name = if who.is_empty() { "anonymous" } else { who };
        let put = scene.send("admin", &format!("PUT /dav/{name}.txt"), json!("x")).await;
        assert_eq!(put.status, 201, "{put:?}");
    }
    for line in [table, of_other_methods(), of_console()].concat() {
        for (who, _) in PRINCIPALS {
            wrong.extend(mistake(&scene, &line, who).await);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    scene.stop().await;
}

/// Operations that do not name a lock or a path: they are open to every principal with the right on any name, and leave
/// out what the principal has no right to.
const UNNAMED: [&str; 19] = [
    "post /v1/revoke",
    "post /v1/sessions",
    "get /v1/events",
    "get /v1/history",
    "get /v1/locks",
    "get /v1/namespaces/{namespace}/events",
    "get /v1/namespaces/{namespace}/history",
    "get /v1/namespaces/{namespace}/locks",
    "get /v1/claims",
    "get /v1/claims/",
    "get /lock/page",
    "post /auth/session",
    "get /admin/locks",
    "get /",
    "get /terraform",
    "get /lfs/{repository}/locks",
    "post /lfs/{repository}/locks/verify",
    "get /console?namespace=default",
    "get /console/files",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_counts_for_the_names_of_its_rule_only() {
    let scene = super::scene().await;
    let mut wrong = Vec::new();
    for (route, need, body) in [of_contract(), of_other_methods(), of_console()].concat() {
        let is_of_names =
            matches!(need, Read | Acquire | Revoke | FilesRead | FilesWrite | Download | Upload);
        let mistake = mistake(&scene, &(route, need, body), super::ELSEWHERE).await;
        match UNNAMED.contains(&route) {
            true if mistake.is_none() => wrong.push(format!("{route} names something")),
            false if is_of_names => wrong.extend(mistake),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_has_the_shape_of_its_dialect() {
    let scene = Scene::new().await;
    let shape = |value: &Value| {
        let members = value.as_object().expect("an object");
        members.keys().cloned().collect::<Vec<_>>().join(",")
    };
    for (line, body, members, codes) in [
        (
            "POST /v1/locks/x/acquire",
            json!({"owner_id": "o", "ttl_ms": 1}),
            "code,error,may_have_taken_effect,retryable",
            ["UNAUTHENTICATED", "FORBIDDEN"],
        ),
        (
            "POST /leases/acquire",
            json!({"tenant_id": "t", "lock_key": "x", "request_id": "r", "owner_id": "nothing", "ttl_seconds": 10}),
            "code,message,server_time,status",
            ["OWNER_TOKEN_REQUIRED", "FORBIDDEN"],
        ),
        ("POST /v1/claims", json!({"resource": "x", "timeout": 1}), "message", ["", ""]),
        ("POST /lock?client=c", Value::Null, "error", ["", ""]),
        ("GET /missing.txt", Value::Null, "error,message", ["", ""]),
        ("POST /lfs/a/locks", json!({"path": "x"}), "message", ["", ""]),
    ] {
        for (who, status, code) in [("", 401, codes[0]), ("nothing", 403, codes[1])] {
            let refused = scene.send(who, line, body.clone()).await;
            assert_eq!(
                (refused.status, shape(&refused.body).as_str()),
                (status, members),
                "{refused:?}"
            );
            assert_eq!(refused.text_of("code"), code, "{refused:?}");
            let asks = refused.headers.get("www-authenticate").map(|value| value.to_str().unwrap());
            assert_eq!(asks, (status == 401).then_some("Bearer realm=\"leasehold\""), "{line}");
        }
    }
    let refused = scene.send("taker", "POST /v1/locks/x/revoke", json!({"reason": "r"})).await;
    assert_eq!(refused.text_of("error"), "key:taker may not revoke default/x: no rule grants it");
    scene.stop().await;
}
