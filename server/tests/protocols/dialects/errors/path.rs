//! Tests of unknown paths and methods, unusual characters in names, and namespaces.

use hyper::Method;
use leasehold_testkit::{Client, Local, Response, Value, json, settings};

use crate::dialects::errors::{Scene, bare, get, post};

#[tokio::test]
async fn an_unknown_path_is_not_found() {
    let scene = Scene::new().await;
    let paths = [
        "/v1",
        "/v1/",
        "/v1/nope",
        "/v1/locks/",
        "/v1/locks/job/",
        "/v1/locks/job/nope",
        "/v1/locks/job/acquire/",
        "/v1/locks/job/acquire/x",
        "/v1/locks//",
        "/v1/namespaces/other",
        "/v1/namespaces/other/locks/",
        "/v1/namespaces/other/locks/job/",
        "/v1/sessions/",
        "/v1/sessions/x/",
        "/v1/sessions/x/nope",
        "/v1/fence",
        "/v1/fence/check/",
        "/v1/events/",
        "/healthz/",
    ];
    for path in paths {
        scene.refuses(get(path), 404, "NOT_FOUND", "no such path").await;
        scene.refuses(post(path, "{}"), 404, "NOT_FOUND", "no such path").await;
    }
}

#[tokio::test]
async fn an_unknown_parameter_is_an_error_anywhere() {
    let scene = Scene::new().await;
    let session = format!("/v1/sessions/{}", scene.session_id);
    let word = "unknown parameter `dry_run`";
    let proof = scene.proof(json!({"extend_by_ms": 90_000}));
    let renew_all = json!({"owner_id": "a", "extend_by_ms": 5, "leases": []});
    let posts = [
        ("/v1/locks/free/acquire", json!({"owner_id": "b", "ttl_ms": 1000})),
        ("/v1/namespaces/other/locks/free/acquire", json!({"owner_id": "b", "ttl_ms": 1000})),
        ("/v1/locks/job/renew", proof),
        ("/v1/locks/job/release", scene.proof(json!({}))),
        ("/v1/locks/job/watch", scene.proof(json!({}))),
        ("/v1/locks/job/revoke", json!({"reason": "x"})),
        ("/v1/locks/job/cancel", json!({"owner_id": "a", "request_id": "first"})),
        ("/v1/acquire", json!({"owner_id": "b", "ttl_ms": 1, "locks": [{"lock_name": "free"}]})),
        ("/v1/renew", renew_all),
        ("/v1/release", json!({"owner_id": "a", "leases": []})),
        ("/v1/cancel", json!({"owner_id": "a", "request_id": "first"})),
        ("/v1/revoke", json!({"owner_id": "a", "reason": "x"})),
        ("/v1/sessions", json!({"owner_id": "b", "ttl_ms": 1000})),
        ("/v1/fence/check", json!({"lock_name": "job", "fencing_token": 1})),
        ("/v1/admin/backup", json!({})),
    ];
    for (path, body) in posts {
        let ask = post(&format!("{path}?dry_run=true"), body.to_string());
        scene.refuses(ask, 400, "INVALID_REQUEST", word).await;
    }
    for (method, path) in [
        (Method::GET, "/v1/locks/job"),
        (Method::GET, "/v1/admin/maintenance"),
        (Method::PUT, "/v1/admin/maintenance"),
        (Method::GET, "/v1/admin/auth"),
        (Method::DELETE, "/v1/admin/sessions/1"),
        (Method::GET, &session),
        (Method::DELETE, &session),
        (Method::POST, &format!("{session}/keepalive")),
    ] {
        let ask = bare(method, &format!("{path}?dry_run=true"));
        scene.refuses(ask, 400, "INVALID_REQUEST", word).await;
    }
}

#[tokio::test]
async fn a_wrong_method_is_told_the_right_ones() {
    let scene = Scene::new().await;
    let (reads, writes) = (
        ["/v1/locks", "/v1/locks/job", "/v1/namespaces/other/locks", "/v1/events", "/healthz"],
        [
            "/v1/locks/job/acquire",
            "/v1/locks/job/renew",
            "/v1/locks/job/release",
            "/v1/locks/job/revoke",
            "/v1/namespaces/other/locks/job/acquire",
            "/v1/sessions",
            "/v1/sessions/x/keepalive",
            "/v1/fence/check",
        ],
    );
    let others = ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"];
    let of = |paths: &[&'static str], wrong: &str, allow| {
        let wrong = Method::from_bytes(wrong.as_bytes()).expect("a method");
        paths.iter().map(|path| (wrong.clone(), *path, allow)).collect::<Vec<_>>()
    };
    let mut cases = of(&reads, "POST", "GET,HEAD");
    cases.extend(others.iter().flat_map(|wrong| of(&reads, wrong, "GET,HEAD")));
    cases.extend(others.iter().flat_map(|wrong| of(&writes, wrong, "POST")));
    cases.extend(of(&writes, "GET", "POST"));
    cases.extend(of(&["/v1/sessions/x"], "POST", "GET,HEAD,DELETE"));
    for (method, path, allow) in cases {
        let asked = format!("{method} {path}");
        let response = scene.send(bare(method.clone(), path)).await;
        assert_eq!(response.headers["allow"], allow, "{asked}");
        scene.refuses(bare(method, path), 405, "METHOD_NOT_ALLOWED", "method").await;
    }
}

#[tokio::test]
async fn head_answers_as_get_does_but_without_a_body() {
    let scene = Scene::new().await;
    for path in ["/v1/locks/job", "/v1/locks", "/healthz", "/livez", "/readyz"] {
        let head = scene.send(bare(Method::HEAD, path)).await;
        let got = scene.local.client.get(path).await;
        assert_eq!((head.status, head.text.as_str()), (200, ""), "{path}");
        assert_eq!(head.headers["content-type"], got.headers["content-type"], "{path}");
        assert_eq!(head.headers["content-length"], got.text.len().to_string().as_str(), "{path}");
    }
    let too_long = format!("/v1/locks/{}", "l".repeat(513));
    for (path, status) in
        [("/v1/locks/job/acquire", 405), ("/v1/nope", 404), (too_long.as_str(), 400)]
    {
        let head = scene.send(bare(Method::HEAD, path)).await;
        assert_eq!((head.status, head.text.as_str()), (status, ""), "{path}");
    }
}

#[tokio::test]
async fn a_lock_may_have_any_name_and_it_comes_back_decoded() {
    let scene = Scene::new().await;
    let client = &scene.local.client;
    let names = [
        ("a%2Fb", "a/b"),
        ("%2F", "/"),
        ("a%20b", "a b"),
        ("%20", " "),
        ("a+b", "a+b"),
        ("100%25", "100%"),
        ("a%252Fb", "a%2Fb"),
        ("%2E%2E", ".."),
        ("a%3Fb%23c%26d", "a?b#c&d"),
        ("%C3%BC%E6%BC%A2%F0%9F%94%92", "ü漢🔒"),
        ("U%CC%88", "U\u{308}"),
        ("%00%0A%7F", "\0\n\u{7f}"),
        ("%22%7B%5C", "\"{\\"),
        ("acquire", "acquire"),
        ("a;b=c,d:e@f", "a;b=c,d:e@f"),
    ];
    for (n, (encoded, name)) in names.into_iter().enumerate() {
        let path = format!("/v1/locks/{encoded}");
        let acquired = acquire(client, &path, "b").await;
        assert_eq!((acquired.status, acquired.text_of("lock_name").as_str()), (200, name));
        assert_eq!(acquire(client, &path, "c").await.get("lock_name"), name);
        assert_eq!(client.get(&path).await.get("lock_name"), name);
        let list = client.get(&format!("/v1/locks?prefix={}", encoded.replace('+', "%2B"))).await;
        let listed = list.get("locks").as_array().expect("a list");
        assert!(listed.iter().any(|lock| lock["lock_name"] == name), "{name:?}: {}", list.text);
        let proof = proof(&acquired);
        let released = client.post(&format!("{path}/release"), proof).await.expect("an answer");
        assert_eq!(released.status, 200, "{name:?} ({n}): {}", released.text);
    }
}

#[tokio::test]
async fn a_path_that_is_not_utf_8_is_refused() {
    let scene = Scene::new().await;
    let body = json!({"owner_id": "b", "ttl_ms": 1000}).to_string();
    for bad in ["%FF", "a%C3", "%ED%A0%80", "%C0%AF"] {
        for path in [format!("/v1/locks/{bad}"), format!("/v1/namespaces/{bad}/locks/job")] {
            scene.refuses(get(&path), 400, "INVALID_REQUEST", "path").await;
            let acquire = post(&format!("{path}/acquire"), body.clone());
            scene.refuses(acquire, 400, "INVALID_REQUEST", "path").await;
        }
        let list = format!("/v1/namespaces/{bad}/locks");
        scene.refuses(get(&list), 400, "INVALID_REQUEST", "path").await;
        let session = format!("/v1/sessions/{bad}");
        scene.refuses(bare(Method::DELETE, &session), 400, "INVALID_REQUEST", "path").await;
    }
}

#[tokio::test]
async fn two_namespaces_do_not_meet() {
    let scene = Scene::new().await;
    let client = &scene.local.client;
    let other = "/v1/namespaces/other/locks/job";
    let acquired = acquire(client, other, "b").await;
    assert_eq!((acquired.status, acquired.number("fencing_token")), (200, 1), "{}", acquired.text);
    let stranger = client.post(&format!("{other}/release"), scene.proof(json!({}))).await;
    let stranger = stranger.expect("an answer");
    assert_eq!((stranger.status, stranger.text_of("reason").as_str()), (409, "NOT_OWNER"));
    for (list, owner) in [("/v1/locks", "a"), ("/v1/namespaces/other/locks", "b")] {
        let list = client.get(list).await;
        assert_eq!(list.get("locks").as_array().map(Vec::len), Some(1), "{}", list.text);
        assert_eq!(list.body["locks"][0]["owner_id"], owner);
    }
    let released = client.post(&format!("{other}/release"), proof(&acquired)).await;
    assert_eq!(released.expect("an answer").status, 200);
    assert_eq!(client.get("/v1/locks/job").await.get("owner_id"), "a");
    let same = client.get("/v1/namespaces/default/locks/job").await;
    assert_eq!(same.get("owner_id"), "a", "the default namespace has a name");
}

async fn acquire(client: &Client, path: &str, owner: &str) -> Response {
    let body = json!({"owner_id": owner, "ttl_ms": 1000});
    client.post(&format!("{path}/acquire"), body).await.expect("an answer")
}

fn proof(acquired: &Response) -> Value {
    json!({
        "owner_id": acquired.get("owner_id"),
        "lease_id": acquired.get("lease_id"),
        "fencing_token": acquired.get("fencing_token"),
    })
}

#[tokio::test]
async fn a_percent_sign_without_two_digits_is_refused() {
    let scene = Scene::new().await;
    for name in ["%zz", "%", "%2", "a%g0"] {
        let ask = post(&format!("/v1/locks/{name}/acquire"), r#"{"owner_id":"b","ttl_ms":1000}"#);
        scene.refuses(ask, 400, "INVALID_REQUEST", "%").await;
    }
    let long = "n".repeat(129);
    let ask = get(&format!("/v1/namespaces/{long}/locks"));
    scene.refuses(ask, 400, "INVALID_REQUEST", "namespace").await;
}

#[tokio::test]
async fn the_namespace_of_paths_without_one_is_a_setting() {
    let mut settings = settings(None);
    settings.dialect.native.namespace = "ours".into();
    let local = Local::start(settings).await;
    let client = &local.client;
    assert_eq!(client.acquire("job", "a", 60_000, json!({})).await.status, 200);
    assert_eq!(client.get("/v1/namespaces/default/locks/job").await.get("held"), false);
    assert_eq!(client.get("/v1/namespaces/ours/locks/job").await.get("held"), true);
    let listed = client.get("/v1/locks").await;
    assert_eq!(listed.get("locks")[0]["lock_name"], "job");
    let check = json!({"lock_name": "job", "fencing_token": 1});
    let verdict = client.post("/v1/fence/check", check).await.expect("an answer");
    assert_eq!(verdict.get("accepted"), true);
}
