//! Tests of signed tokens: valid ones, every known kind of forgery, and key changes at the issuer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::RsaKeyPair;
use hyper::Method;
use leasehold_server::serve::Settings;
use leasehold_testkit::{Response, Value, json};

use crate::auth::idp::{Idp, Key, NOW, encode};
use crate::auth::{RULES, Scene, acquire};

pub(crate) const LOOK: &str = "GET /v1/locks/x";

/// Returns an auth file with this issuer, and with `more` in its section.
pub(crate) fn oidc(idp: &Idp, more: &str) -> String {
    let issuer = idp.url();
    format!(
        "{RULES}\n[[oidc]]\nname = \"oidc\"\nissuer = \"{issuer}\"\naudiences = [\"leasehold\"]\n\
         algorithms = [\"RS256\", \"ES256\", \"EdDSA\"]\n{more}\n\
         [[rule]]\nname = \"payments\"\ngroups = [\"oidc:payments\"]\nmay = [\"acquire\", \"files-write\"]\n\
         namespaces = [\"default\", \"t\", \"files\"]\n"
    )
}

pub(crate) async fn scene(idp: &Idp, more: &str) -> Scene {
    scene_with(idp, more, |_| {}).await
}

/// Starts a server with a high limit of wrong tokens, because these tests send many.
pub(crate) async fn scene_with(idp: &Idp, more: &str, change: impl FnOnce(&mut Settings)) -> Scene {
    let scene = Scene::with(&oidc(idp, more), &["admin", "other"], |settings| {
        settings.auth.failures_per_minute = 10_000;
        change(settings);
    })
    .await;
    scene.local.clock.set_wall_ms(NOW * 1000);
    scene
}

impl Scene {
    pub(crate) async fn by(&self, token: &str, line: &str, body: Value) -> Response {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let (method, path) = line.split_once(' ').expect("a method and a path");
        let method: Method = method.parse().expect("a method");
        let headers = if body.is_null() { &headers[..1] } else { &headers };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.local.client.send_with(method, path, headers, body).await.expect("an answer")
    }

    pub(crate) async fn look(&self, token: &str) -> (u16, String) {
        let answer = self.by(token, LOOK, Value::Null).await;
        (answer.status, answer.text)
    }
}

#[tokio::test]
async fn a_token_proves_who_asks_and_which_groups_they_are_in() {
    for key in [Key::rsa(), Key::ec(), Key::ed()] {
        let idp = Idp::start(key).await;
        let scene = scene(&idp, "").await;
        let token = idp.token();
        let taken = scene.by(&token, "POST /v1/locks/x/acquire", acquire("o")).await;
        assert_eq!(taken.status, 200, "{taken:?}");
        let seen = scene.send("admin", LOOK, Value::Null).await;
        assert!(seen.text.contains("\"oidc:alice\""), "{}", seen.text);
        let elsewhere = scene.by(&token, "POST /v1/locks/x/revoke", json!({"reason": "r"})).await;
        assert_eq!(elsewhere.status, 403, "{elsewhere:?}");
        // A user in no group has no rights.
        let mut claims = idp.claims();
        claims["groups"] = json!([]);
        let (status, why) = scene.look(&idp.token_of("first", &claims)).await;
        assert_eq!(status, 403);
        assert!(why.contains("oidc:alice may not read"), "{why}");
        assert_eq!(idp.n_jwks(), 1, "its keys were fetched once");
        scene.stop().await;
    }
}

#[tokio::test]
async fn groups_count_in_every_dialect() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp, "").await;
    let token = idp.token();
    let mut claims = idp.claims();
    claims["groups"] = json!(["ops"]);
    let in_no_group = idp.token_of("first", &claims);
    for (line, body) in [
        ("POST /v1/locks/a/acquire", acquire("o")),
        (
            "POST /leases/acquire",
            json!({"tenant_id": "t", "lock_key": "b", "owner_id": "alice/1", "ttl_seconds": 30, "request_id": "r"}),
        ),
        ("POST /v1/claims", json!({"resource": "c", "timeout": 600})),
        ("POST /lock?client=alice&job=d", Value::Null),
        ("POST /auth/session", Value::Null),
    ] {
        let answer = scene.by(&in_no_group, line, body.clone()).await;
        assert_eq!(answer.status, 403, "{line}: {answer:?}");
        let answer = scene.by(&token, line, body).await;
        assert!(answer.status < 300, "{line}: {answer:?}");
    }
    scene.stop().await;
}

/// Returns claims that differ from `alice`'s valid claims in one way each, with a name for the difference.
fn wrong_claims(idp: &Idp) -> Vec<(&'static str, Value)> {
    let with = |name: &str, value: Value| {
        let mut claims = idp.claims();
        claims[name] = value;
        claims
    };
    let without = |name: &str| {
        let mut claims = idp.claims();
        claims.as_object_mut().expect("an object").remove(name);
        claims
    };
    vec![
        ("has expired", with("exp", json!(NOW - 31))),
        ("has no expiry time", without("exp")),
        ("is not a number of seconds", with("exp", json!("tomorrow"))),
        ("is not a number of seconds", with("exp", json!(1e300))),
        ("is not valid yet", with("nbf", json!(NOW + 31))),
        ("an unknown issuer", with("iss", json!("https://evil.example"))),
        ("an unknown issuer", with("iss", json!([idp.url()]))),
        ("an unknown issuer", without("iss")),
        ("for another audience", with("aud", json!("other"))),
        ("for another audience", with("aud", json!(["other"]))),
        ("for another audience", with("aud", json!([["leasehold"]]))),
        ("for another audience", with("aud", json!(["leasehold", 1]))),
        ("for another audience", without("aud")),
        ("sub is missing", without("sub")),
        ("sub is missing", with("sub", json!(""))),
        ("sub is missing", with("sub", json!(7))),
        ("sub is missing", with("sub", json!("a\nb"))),
        ("sub is missing", with("sub", json!("a".repeat(201)))),
        ("groups are not", with("groups", json!({"a": 1}))),
        ("groups are not strings", with("groups", json!([1]))),
        ("an ID token", with("at_hash", json!("x"))),
        ("an ID token", with("typ", json!("ID"))),
    ]
}

#[tokio::test]
async fn a_token_that_claims_something_wrong_is_refused() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp, "").await;
    for (why, claims) in wrong_claims(&idp) {
        let (status, told) = scene.look(&idp.token_of("first", &claims)).await;
        assert_eq!(status, 401, "{why}: {told}");
        assert!(told.contains(why), "{told}\nexpected: {why}");
    }
    // Times within the leeway, and one of several audiences.
    for (name, value) in
        [("exp", json!(NOW - 29)), ("nbf", json!(NOW + 29)), ("aud", json!(["a", "leasehold"]))]
    {
        let mut claims = idp.claims();
        claims[name] = value;
        assert_eq!(scene.look(&idp.token_of("first", &claims)).await.0, 200, "{claims}");
    }
    scene.stop().await;
}

/// Returns forged tokens, each with the expected reason for its refusal.
fn forged(idp: &Idp, good: &str) -> Vec<(&'static str, String)> {
    let (key, claims) = (idp.key("first"), idp.claims().to_string());
    let parts: Vec<_> = good.split('.').collect();
    let header = |more: Value| {
        let mut header = json!({"alg": "RS256", "kid": "first", "typ": "JWT"});
        let more = more.as_object().expect("an object").clone();
        more.into_iter().for_each(|(name, value)| header[name] = value);
        key.token(&header.to_string(), &claims)
    };
    let public = key.jwk("first").to_string();
    let confused = {
        let message = format!(
            "{}.{}",
            encode(br#"{"alg":"HS256","kid":"first"}"#),
            encode(claims.as_bytes())
        );
        let code = aws_lc_rs::hmac::sign(
            &aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, public.as_bytes()),
            message.as_bytes(),
        );
        format!("{message}.{}", encode(code.as_ref()))
    };
    let none = format!("{}.{}.", encode(br#"{"alg":"none"}"#), parts[1]);
    let doubled = claims.replacen("\"sub\"", "\"sub\":\"root\",\"sub\"", 1);
    let nested = format!("{{\"a\":{}1{},{}", "[".repeat(1000), "]".repeat(1000), &claims[1..]);
    let head = r#"{"alg":"RS256","kid":"first"}"#;
    let other = Key::Rsa(Arc::new(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key")));
    vec![
        (
            "signature is wrong",
            format!(
                "{}.{}.{}",
                parts[0],
                encode(claims.replace("alice", "mallory").as_bytes()),
                parts[2]
            ),
        ),
        ("signature is wrong", format!("{}.{}.", parts[0], parts[1])),
        ("signature is wrong", other.token(head, &claims)),
        ("algorithm is not allowed", none),
        ("algorithm is not allowed", confused),
        ("algorithm is not allowed", header(json!({"alg": "RS384"}))),
        ("signature is wrong", header(json!({"alg": "ES256"}))),
        ("a forbidden parameter", header(json!({"crit": ["x"]}))),
        ("a forbidden parameter", header(json!({"jku": "https://evil.example/jwks"}))),
        ("a forbidden parameter", header(json!({"jwk": key.jwk("first")}))),
        ("a forbidden parameter", header(json!({"x5u": "https://evil.example"}))),
        ("a forbidden parameter", header(json!({"cty": "JWT"}))),
        ("a forbidden parameter", header(json!({"zip": "DEF"}))),
        ("the wrong type", header(json!({"typ": "logout+jwt"}))),
        ("kid is not a string", header(json!({"kid": 1}))),
        ("an unknown key", header(json!({"kid": "../../first"}))),
        ("a claim appears twice", key.token(head, &doubled)),
        ("a claim appears twice", key.token(head, &nested)),
        ("header is not a JSON object", key.token(r#"{"alg":"RS256","alg":"none"}"#, &claims)),
        ("header is not a JSON object", key.token("[]", &claims)),
        ("not a JSON object", key.token(head, "\"alice\"")),
        ("unknown credential", "abc".into()),
        ("header is not a JSON object", "a.b.c".into()),
        ("header is not a JSON object", "..".into()),
        ("unknown credential", format!("{good}.{}", parts[2])),
        ("signature is not base64url", format!("{good}=")),
        (
            "longer than 8192 bytes",
            key.token(head, &format!("{{\"a\":\"{}\",{}", "x".repeat(9000), &claims[1..])),
        ),
    ]
}

#[tokio::test]
async fn a_forged_token_is_refused() {
    let idp = Idp::start(Key::rsa()).await;
    let scene = scene(&idp, "").await;
    let good = idp.token();
    for (why, token) in forged(&idp, &good) {
        let (status, told) = scene.look(&token).await;
        assert_eq!(status, 401, "{why}: {told}");
        assert!(told.contains(why), "{told}\nexpected: {why}");
    }
    assert_eq!(scene.look(&good).await.0, 200);
    // Headers as real issuers write them.
    for header in [
        r#"{"alg":"RS256","kid":"first"}"#,
        r#"{"alg":"RS256"}"#,
        r#"{"alg":"RS256","kid":"first","typ":"at+jwt"}"#,
        r#"{"alg":"RS256","kid":"first","typ":"application/at+jwt"}"#,
        r#"{"alg":"RS256","kid":"first","typ":"jwt","x5t":"abc","x5t#S256":"abc"}"#,
    ] {
        let token = idp.key("first").token(header, &idp.claims().to_string());
        assert_eq!(scene.look(&token).await, (200, scene.look(&good).await.1), "{header}");
    }
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_and_streams_end_with_the_token() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp, "leeway = \"0s\"").await;
    assert_eq!(scene.send("other", "POST /v1/locks/x/acquire", acquire("o")).await.status, 200);
    let mut claims = idp.claims();
    claims["exp"] = json!(NOW + 60);
    let token = idp.token_of("first", &claims);
    let wait = json!({"owner_id": "w", "ttl_ms": 60_000, "wait_ms": 60_000});
    let waiting = scene.by(&token, "POST /v1/locks/x/acquire", wait);
    let events = scene.by(&token, "GET /v1/events", Value::Null);
    let ending = async {
        scene
            .local
            .until("a client waits and follows", async |_| {
                let lock = scene.send("admin", LOOK, Value::Null).await;
                let metrics = scene.send("admin", "GET /metrics", Value::Null).await.text;
                let follows = metrics.lines().any(|line| line == "leasehold_event_streams 1");
                lock.body["n_waiting"] == 1 && follows
            })
            .await;
        scene.local.clock.set_wall_ms((NOW + 60) * 1000);
        Instant::now()
    };
    let (waiting, events, ended) = tokio::join!(waiting, events, ending);
    assert_eq!((waiting.status, events.status), (401, 200), "{waiting:?}");
    assert!(ended.elapsed() < Duration::from_secs(30), "{:?}", ended.elapsed());
    assert_eq!(scene.look(&token).await.0, 401, "it is not remembered for longer");
    scene.stop().await;
}

#[tokio::test]
async fn the_principal_is_the_claim_the_file_names() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp, "principal-claim = \"email\"\ngroups-claim = \"realm.roles\"").await;
    let claims = |verified: Value| {
        let mut claims = idp.claims();
        claims["email"] = json!("alice@example.org");
        claims["email_verified"] = verified;
        claims["realm"] = json!({"roles": ["payments"]});
        idp.token_of("first", &claims)
    };
    for verified in [json!(false), json!("true"), Value::Null, json!(1)] {
        let (status, told) = scene.look(&claims(verified.clone())).await;
        assert_eq!(status, 401, "{verified}");
        assert!(told.contains("email_verified"), "{told}");
    }
    let taken = scene.by(&claims(json!(true)), "POST /v1/locks/x/acquire", acquire("o")).await;
    assert_eq!(taken.status, 200, "{taken:?}");
    let seen = scene.send("admin", LOOK, Value::Null).await;
    assert!(seen.text.contains("\"oidc:alice@example.org\""), "{}", seen.text);
    scene.stop().await;
}

#[tokio::test]
async fn a_session_of_files_is_opened_with_a_token_and_outlives_it_by_hours() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp, "").await;
    let opened = scene.by(&idp.token(), "POST /auth/session", Value::Null).await;
    assert_eq!(opened.status, 201, "{opened:?}");
    let session = opened.text_of("sessionId");
    let write = async || scene.by(&session, "PUT /f.txt", json!("x")).await.status;
    assert!(write().await < 300);
    // The token has expired, but the session continues, with the groups and rights of the current auth file.
    scene.local.advance_ms(2 * 3_600_000);
    assert_eq!(scene.look(&idp.token()).await.0, 401);
    assert!(write().await < 300);
    std::fs::write(scene.file("auth.toml"), RULES).expect("a file");
    scene
        .local
        .until("the issuer is gone", async |_| {
            scene.local.server.reload();
            write().await == 401
        })
        .await;
    scene.stop().await;
}

#[tokio::test]
async fn two_principals_are_one_too_many() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp, "").await;
    let (token, key) = (format!("Bearer {}", idp.token()), scene.proof("admin").remove(0).1);
    let both = [("authorization", token.as_str()), ("authorization", key.as_str())];
    assert_eq!(scene.status(&both, LOOK, "").await, 401);
    scene.stop().await;
}
