//! Tests that calls that bypass the router get the same responses as calls that go through it. Both servers get the
//! same requests. For one of them, the path contains the namespace, which only the router handles.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use leasehold_testkit::{Local, Response, Value, json};

type Method = hyper::Method;
type Header<'a> = (&'a str, &'a str);

const JSON: (&str, &str) = ("content-type", "application/json");

/// A server, and the path prefix that selects how requests reach its handlers.
struct Teller {
    local: Local,
    locks: &'static str,
}

impl Teller {
    /// Starts a server whose requests bypass the router.
    async fn short() -> Self {
        Self { local: Local::ephemeral().await, locks: "/v1/locks" }
    }

    /// Starts a server whose requests go through the router.
    async fn long() -> Self {
        Self { local: Local::ephemeral().await, locks: "/v1/namespaces/default/locks" }
    }

    async fn tell(&self, path: &str, headers: &[Header<'_>], body: &str) -> Response {
        let (path, body) = (format!("{}{path}", self.locks), body.to_owned());
        self.local.client.send_with(Method::POST, &path, headers, body).await.unwrap()
    }
}

/// Returns the parts of a response that are the same on every server.
fn essence(response: &Response) -> (u16, Option<String>, Value) {
    let mut body = response.body.clone();
    if let Some(id) = body.get_mut("lease_id") {
        let number = id.as_str().unwrap().split('.').next().unwrap().to_owned();
        *id = number.into();
    }
    let kind = response.headers.get("content-type");
    let kind = kind.map(|kind| kind.to_str().unwrap().to_owned());
    let body = if body.is_null() { response.text.clone().into() } else { body };
    (response.status, kind, body)
}

#[tokio::test]
async fn the_short_way_and_the_long_way_lead_to_the_same_answers() {
    let (short, long) = (Teller::short().await, Teller::long().await);
    let too_long = format!("/{}/acquire", "x".repeat(5000));
    let too_large = format!("{{\"owner_id\":\"{}\"}}", "x".repeat(70_000));
    let ann = r#"{"owner_id":"ann","ttl_ms":60000}"#;
    let text = ("content-type", "text/plain");
    let story: &[(&str, &[Header<'_>], &str)] = &[
        ("/db/acquire", &[JSON], ann),
        ("/db/acquire", &[JSON], r#"{"owner_id":"ben","ttl_ms":60000}"#),
        ("/db/acquire?unknown=1", &[], ann),
        ("/a.b-c_d~e:f/acquire", &[JSON], ann),
        ("/../acquire", &[JSON], ann),
        (&too_long, &[JSON], ann),
        ("/x/acquire", &[JSON], ""),
        ("/x/acquire", &[JSON], "{"),
        ("/x/acquire", &[JSON], "[]"),
        ("/x/acquire", &[JSON], r#"{"owner_id":"ann","ttl_ms":"60000"}"#),
        ("/x/acquire", &[JSON], r#"{"owner_id":"ann","ttl_ms":1,"more":1}"#),
        ("/x/acquire", &[JSON], r#"{"owner_id":"ann","ttl_ms":0}"#),
        ("/x/acquire", &[JSON], r#"{"owner_id":"","ttl_ms":1000}"#),
        ("/x/acquire", &[JSON], &too_large),
        ("/x/acquire", &[text], ann),
        ("/x/acquire/", &[JSON], ann),
        ("//acquire", &[JSON], ann),
        ("/x/y/acquire", &[JSON], ann),
        ("/db/renew", &[JSON], ann),
        ("/db/release", &[JSON], r#"{"owner_id":"ann","lease_id":"1.0","fencing_token":1}"#),
        ("/db/Release", &[JSON], ann),
    ];
    for (path, headers, body) in story {
        let [one, other] = [&short, &long].map(|teller| teller.tell(path, headers, body));
        let (one, other) = (one.await, other.await);
        assert_eq!(essence(&one), essence(&other), "{path} {body}");
    }
}

#[tokio::test]
async fn a_lock_acquired_one_way_is_renewed_and_released_the_other() {
    let (short, long) = (Teller::short().await, Teller::long().await);
    for teller in [&short, &long] {
        let taken = teller.local.client.acquire("db", "ann", 60_000, json!({})).await;
        let mut proof = json!({"owner_id": "ann", "fencing_token": 1, "extend_by_ms": 90_000});
        proof["lease_id"] = taken.get("lease_id").clone();
        let renewed = teller.tell("/db/renew", &[JSON], &proof.to_string()).await;
        assert_eq!((renewed.status, renewed.get("expires_in_ms")), (200, &json!(90_000)));
        proof.as_object_mut().unwrap().remove("extend_by_ms");
        let released = teller.tell("/db/release", &[JSON], &proof.to_string()).await;
        assert_eq!((released.status, released.get("released")), (200, &json!(true)));
    }
}

#[tokio::test]
async fn no_header_makes_a_request_take_another_way() {
    let short = Teller::short().await;
    let body = r#"{"owner_id":"ann","ttl_ms":60000}"#;
    for (n, header) in [
        ("x-request-id", "r"),
        ("upgrade", "h2c"),
        ("expect", "100-continue"),
        ("x-forwarded-host", "a"),
        ("authorization", "Bearer x"),
        ("x-http-method-override", "DELETE"),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = short.tell(&format!("/lock-{n}/acquire"), &[JSON, header], body).await;
        assert_eq!(answer.status, 200, "{header:?}");
        let is_echoed = answer.headers.get("x-request-id").is_some();
        assert_eq!(is_echoed, header.0 == "x-request-id", "{header:?}");
    }
    let metrics = short.local.client.get("/metrics").await.text;
    let counted = "leasehold_http_requests_total{method=\"POST\",\
                   route=\"/v1/locks/{lock}/acquire\",status=\"200\"} 6\n";
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn every_answer_is_counted_by_its_route_whichever_way_it_took() {
    let long = Teller::long().await;
    assert_eq!(long.tell("/secret/acquire", &[JSON], "{").await.status, 400);
    let client = &long.local.client;
    for (path, status) in [("/v1/sessions/secret", 404), ("/secret", 404), ("/v1/locks", 200)] {
        assert_eq!(client.get(path).await.status, status, "{path}");
    }
    let brewed = client.send(Method::from_bytes(b"BREW").unwrap(), "/healthz", None, "").await;
    assert_eq!(brewed.unwrap().status, 405);
    let metrics = client.get("/metrics").await.text;
    for (method, route, status) in [
        ("POST", "/v1/namespaces/{namespace}/locks/{lock}/acquire", 400),
        ("GET", "/v1/sessions/{session}", 404),
        ("GET", "/{path}", 404),
        ("GET", "/v1/locks", 200),
        ("other", "/healthz", 405),
    ] {
        let counted = format!(
            "leasehold_http_requests_total{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}} 1\n"
        );
        assert!(metrics.contains(&counted), "{counted} in {metrics}");
    }
    assert!(!metrics.contains("secret"), "{metrics}");
}
