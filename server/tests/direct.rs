//! The calls that do without the router are answered as those that go through it: the same story is told to two
//! servers, to one of them with a header that only the router looks at.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use leasehold_testkit::{Local, Response, Value, json};

type Method = hyper::Method;
type Header<'a> = (&'a str, &'a str);

const JSON: (&str, &str) = ("content-type", "application/json");
const LONG_WAY: (&str, &str) = ("x-request-id", "r");

/// One server, and the way requests take there.
struct Teller {
    local: Local,
    more: Vec<(&'static str, &'static str)>,
}

impl Teller {
    async fn new(more: &[(&'static str, &'static str)]) -> Self {
        Self { local: Local::ephemeral().await, more: more.to_vec() }
    }

    async fn tell(&self, path: &str, headers: &[Header<'_>], body: &str) -> Response {
        let headers = [headers, &self.more].concat();
        let body = body.to_owned();
        self.local.client.send_with(Method::POST, path, &headers, body).await.unwrap()
    }
}

/// What does not differ from server to server.
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
    let (short, long) = (Teller::new(&[]).await, Teller::new(&[LONG_WAY]).await);
    let too_long = format!("/v1/locks/{}/acquire", "x".repeat(5000));
    let too_large = format!("{{\"owner_id\":\"{}\"}}", "x".repeat(70_000));
    let ann = r#"{"owner_id":"ann","ttl_ms":60000}"#;
    let text = ("content-type", "text/plain");
    let story: &[(&str, &[Header<'_>], &str)] = &[
        ("/v1/locks/db/acquire", &[JSON], ann),
        ("/v1/locks/db/acquire", &[JSON], r#"{"owner_id":"ben","ttl_ms":60000}"#),
        ("/v1/locks/db/acquire?unknown=1", &[], ann),
        ("/v1/locks/a.b-c_d~e:f/acquire", &[JSON], ann),
        ("/v1/locks/../acquire", &[JSON], ann),
        (&too_long, &[JSON], ann),
        ("/v1/locks/x/acquire", &[JSON], ""),
        ("/v1/locks/x/acquire", &[JSON], "{"),
        ("/v1/locks/x/acquire", &[JSON], "[]"),
        ("/v1/locks/x/acquire", &[JSON], r#"{"owner_id":"ann","ttl_ms":"60000"}"#),
        ("/v1/locks/x/acquire", &[JSON], r#"{"owner_id":"ann","ttl_ms":1,"more":1}"#),
        ("/v1/locks/x/acquire", &[JSON], r#"{"owner_id":"ann","ttl_ms":0}"#),
        ("/v1/locks/x/acquire", &[JSON], r#"{"owner_id":"","ttl_ms":1000}"#),
        ("/v1/locks/x/acquire", &[JSON], &too_large),
        ("/v1/locks/x/acquire", &[text], ann),
        ("/v1/locks/x/acquire/", &[JSON], ann),
        ("/v1/locks//acquire", &[JSON], ann),
        ("/v1/locks/x/y/acquire", &[JSON], ann),
        ("/v1/locks/db/renew", &[JSON], ann),
        (
            "/v1/locks/db/release",
            &[JSON],
            r#"{"owner_id":"ann","lease_id":"1.0","fencing_token":1}"#,
        ),
        ("/v1/locks/db/Release", &[JSON], ann),
    ];
    for (path, headers, body) in story {
        let [one, other] = [&short, &long].map(|teller| teller.tell(path, headers, body));
        let (one, other) = (one.await, other.await);
        assert_eq!(essence(&one), essence(&other), "{path} {body}");
    }
}

#[tokio::test]
async fn what_was_taken_one_way_is_renewed_and_given_back_the_other() {
    let short = Teller::new(&[]).await;
    let long = Teller { local: Local::ephemeral().await, more: vec![LONG_WAY] };
    for teller in [&short, &long] {
        let taken = teller.local.client.acquire("db", "ann", 60_000, json!({})).await;
        let mut proof = json!({"owner_id": "ann", "fencing_token": 1, "extend_by_ms": 90_000});
        proof["lease_id"] = taken.get("lease_id").clone();
        let renewed = teller.tell("/v1/locks/db/renew", &[JSON], &proof.to_string()).await;
        assert_eq!((renewed.status, renewed.get("expires_in_ms")), (200, &json!(90_000)));
        proof.as_object_mut().unwrap().remove("extend_by_ms");
        let released = teller.tell("/v1/locks/db/release", &[JSON], &proof.to_string()).await;
        assert_eq!((released.status, released.get("released")), (200, &json!(true)));
    }
}
