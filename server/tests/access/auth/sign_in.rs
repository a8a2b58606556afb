//! Tests of signing in with a browser, and of the session cookie.

use std::sync::atomic::Ordering::Relaxed;

use hyper::Method;
use leasehold_server::serve::Settings;
use leasehold_testkit::{Response, Value, json};

use crate::auth::idp::{Idp, Key, NOW};
use crate::auth::token::oidc;
use crate::auth::{RULES, Scene, acquire};

const LOOK: &str = "/v1/locks/x";

async fn scene(idp: &Idp) -> Scene {
    scene_with(idp, |_| {}).await
}

async fn scene_with(idp: &Idp, change: impl FnOnce(&mut Settings)) -> Scene {
    let login = r#"login = { client-id = "lh-console", secret-file = "console", session = "1h" }"#;
    let rules = oidc(idp, login).replacen(
        "version = 1",
        "version = 1\npublic-url = \"https://locks.example.org/\"",
        1,
    );
    let files = [("console", "console-secret")];
    let scene = Scene::with_files(&rules, &["admin", "reader", "other"], &files, change).await;
    scene.local.clock.set_wall_ms(NOW * 1000);
    scene
}

/// A browser with its own cookies.
struct Browser<'a> {
    scene: &'a Scene,
    cookies: std::collections::BTreeMap<String, String>,
    /// Every `Set-Cookie` value received.
    set: Vec<String>,
}

impl<'a> Browser<'a> {
    fn new(scene: &'a Scene) -> Self {
        Self { scene, cookies: Default::default(), set: Vec::new() }
    }

    async fn get(&mut self, path: &str) -> Response {
        self.send(Method::GET, path, &[], "").await
    }

    async fn post(&mut self, path: &str, form: &str) -> Response {
        let kind = ("content-type", "application/x-www-form-urlencoded");
        self.send(Method::POST, path, &[kind], form).await
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let pairs = self.cookies.iter().map(|(name, value)| format!("{name}={value}"));
        let jar = pairs.collect::<Vec<_>>().join("; ");
        let mut headers = headers.to_vec();
        if !jar.is_empty() {
            headers.push(("cookie", &jar));
        }
        let body = body.to_owned();
        let client = &self.scene.local.client;
        let answer = client.send_with(method, path, &headers, body).await.expect("an answer");
        for set in answer.headers.get_all("set-cookie") {
            let set = set.to_str().expect("text").to_owned();
            let (pair, more) = set.split_once(';').expect("attributes");
            let (name, value) = pair.split_once('=').expect("a name");
            if more.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.into(), value.into());
            }
            self.set.push(set);
        }
        answer
    }

    /// Starts signing in and returns the parameters sent to the issuer.
    async fn leave(&mut self, to: &str) -> std::collections::BTreeMap<String, String> {
        let answer = self.get(&format!("/console/sign-in?with=oidc&to={to}")).await;
        assert_eq!(answer.status, 303, "{answer:?}");
        let away = answer.headers["location"].to_str().expect("text");
        let (at, query) = away.split_once('?').expect("a query");
        assert!(at.ends_with("/authorize"), "{at}");
        query
            .split('&')
            .map(|pair| {
                let (name, value) = pair.split_once('=').expect("a value");
                let value = percent_encoding::percent_decode_str(value).decode_utf8_lossy();
                (name.to_owned(), value.into_owned())
            })
            .collect()
    }
}

/// Prepares the issuer's ID token and returns the callback path to which it redirects the browser.
fn come_back(
    idp: &Idp,
    told: &std::collections::BTreeMap<String, String>,
    change: &[(&str, Value)],
) -> String {
    let mut claims = idp.claims();
    claims["aud"] = json!("lh-console");
    claims["nonce"] = json!(told["nonce"]);
    claims["at_hash"] = json!("x");
    change.iter().for_each(|(name, value)| claims[*name] = value.clone());
    let token = idp.token_of("first", &claims);
    *idp.id_token.lock().expect("not poisoned") = Some(token);
    format!("/console/callback?code=c0de&state={}", told["state"])
}

const SESSION: &str = "__Host-leasehold";

#[tokio::test]
async fn a_user_signs_in_with_an_issuer_and_out_again() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp).await;
    let mut browser = Browser::new(&scene);
    assert_eq!(browser.get("/console").await.headers["location"], "/console/sign-in");
    let page = browser.get("/console/sign-in?to=/lock/page").await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("with=oidc&amp;to=%2Flock%2Fpage"), "{}", page.text);
    let told = browser.leave("/lock/page").await;
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", "lh-console"),
        ("redirect_uri", "https://locks.example.org/console/callback"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(told[name], value);
    }
    assert!(browser.set[0].starts_with("__Host-leasehold-sign-in="), "{:?}", browser.set);
    assert!(browser.set[0].ends_with("; Path=/; Max-Age=600; Secure; HttpOnly; SameSite=Lax"));
    let back = come_back(&idp, &told, &[]);
    let signed_in = browser.get(&back).await;
    assert_eq!(signed_in.status, 200, "no redirection: {signed_in:?}");
    let refresh = "<meta http-equiv=\"refresh\" content=\"0;url=/lock/page\">";
    assert!(signed_in.text.contains(refresh), "{}", signed_in.text);
    let session = browser.set.iter().find(|set| set.starts_with("__Host-leasehold=")).expect("one");
    assert!(session.ends_with("; Path=/; Max-Age=3600; Secure; HttpOnly; SameSite=Strict"));
    assert_eq!(browser.cookies.len(), 1, "what was known of the attempt is gone");
    let form = idp.forms.lock().expect("not poisoned")[0].clone();
    let verifier = form.split("code_verifier=").nth(1).expect("a verifier");
    let challenge = sha2::Digest::finalize(sha2::Digest::chain_update(
        <sha2::Sha256 as sha2::Digest>::new(),
        verifier,
    ));
    assert_eq!(told["code_challenge"], crate::auth::idp::encode(&challenge));
    // The session is a credential like any other, including groups.
    assert_eq!(browser.get(LOOK).await.status, 200);
    let body = acquire("o").to_string();
    let json_body = [("content-type", "application/json")];
    let path = "/v1/locks/x/acquire";
    assert_eq!(browser.send(Method::POST, path, &json_body, &body).await.status, 200);
    let shown = browser.get("/console").await.text;
    assert!(shown.contains("Signed in as oidc:alice"), "{shown}");
    scene.until_counted("leasehold_sign_ins 1").await;
    let kept = browser.cookies.clone();
    let out = browser.post("/console/sign-out", "").await;
    assert_eq!(
        (out.status, &out.headers["location"]),
        (303, &"/console/sign-in".parse().expect("text"))
    );
    assert!(browser.cookies.is_empty());
    scene.until_counted("leasehold_sign_ins 0").await;
    browser.cookies = kept;
    assert_eq!(browser.get(LOOK).await.status, 401, "the cookie is worth nothing any more");
    assert_eq!(browser.get("/console/sign-in").await.status, 200, "but one can sign in again");
    scene.stop().await;
}

#[tokio::test]
async fn a_sign_in_is_completed_by_its_own_browser_and_only_once() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp).await;
    let refused = async |change: &[(&str, Value)], query: &str, status: u16| {
        let mut browser = Browser::new(&scene);
        let told = browser.leave("/").await;
        let back = come_back(&idp, &told, change);
        let answer = browser.get(&format!("{back}{query}")).await;
        assert_eq!(answer.status, status, "{change:?} {query}: {answer:?}");
        assert!(!browser.cookies.contains_key(SESSION), "{change:?} {query}");
    };
    refused(&[("nonce", json!("other"))], "", 401).await;
    refused(&[("aud", json!("leasehold"))], "", 401).await;
    refused(&[("aud", json!(["lh-console", "x"]))], "", 401).await;
    refused(&[("azp", json!("x"))], "", 401).await;
    refused(&[("exp", json!(NOW - 60))], "", 401).await;
    refused(&[("iss", json!("https://evil.example"))], "", 401).await;
    refused(&[], "&iss=https%3A%2F%2Fevil.example", 401).await;
    refused(&[], "&error=access_denied", 403).await;
    // A page of another site cannot sign the user in: this browser must have started the sign-in.
    let mut browser = Browser::new(&scene);
    let told = browser.leave("/").await;
    let back = come_back(&idp, &told, &[]);
    let mut other = Browser::new(&scene);
    assert_eq!(other.get(&back).await.status, 400, "another browser");
    other.leave("/").await;
    assert_eq!(other.get(&back).await.status, 400, "with another attempt");
    let kept = browser.cookies.clone();
    assert_eq!(browser.get(&back).await.status, 200);
    browser.cookies = kept.clone();
    assert_eq!(browser.get(&back).await.status, 400, "twice");
    // The sign-in took too long.
    let told = browser.leave("/").await;
    scene.local.advance_ms(600_000);
    assert_eq!(browser.get(&come_back(&idp, &told, &[])).await.status, 400);
    scene.stop().await;
}

#[tokio::test]
async fn an_issuer_that_names_itself_has_to() {
    let idp = Idp::start(Key::ec()).await;
    idp.names_itself.store(true, Relaxed);
    let scene = scene(&idp).await;
    let issuer = idp.url().replace(':', "%3A").replace('/', "%2F");
    for (query, expected) in [(String::new(), 401), (format!("&iss={issuer}"), 200)] {
        let mut browser = Browser::new(&scene);
        let told = browser.leave("/").await;
        let back = come_back(&idp, &told, &[]);
        assert_eq!(browser.get(&format!("{back}{query}")).await.status, expected, "{query}");
    }
    scene.stop().await;
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_is_told_of_and_not_asked_for_ever() {
    let idp = Idp::start(Key::ec()).await;
    idp.is_down.store(true, Relaxed);
    let scene = scene_with(&idp, |settings| settings.auth.lookups_per_minute = 3).await;
    let mut browser = Browser::new(&scene);
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(browser.get("/console/sign-in?with=oidc").await.status);
    }
    assert_eq!(statuses, [503, 503, 503, 429, 429]);
    assert_eq!(browser.get("/console/sign-in?with=absent").await.status, 404);
    scene.stop().await;
}

#[tokio::test]
async fn signing_in_with_a_key_ends_the_previous_session() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp).await;
    let mut browser = Browser::new(&scene);
    let key = scene.keys["reader"].text.clone();
    let Response { status, text, .. } = browser.post("/console/sign-in", "key=lh_a_b&to=/").await;
    assert_eq!(status, 401);
    assert!(text.contains("Unknown API key") && !text.contains("lh_a_b"), "{text}");
    let evil = browser.post("/console/sign-in", &format!("key={key}&to=//evil.example")).await;
    assert_eq!((evil.status, &evil.headers["location"]), (303, &"/console".parse().expect("text")));
    assert_eq!(browser.get(LOOK).await.status, 200);
    let before = browser.cookies.clone();
    let again = browser.post("/console/sign-in", &format!("key={key}&to=/docs")).await;
    assert_eq!(again.headers["location"], "/docs");
    assert_eq!(browser.get(LOOK).await.status, 200);
    let mut old = Browser { cookies: before, ..Browser::new(&scene) };
    assert_eq!(old.get(LOOK).await.status, 401, "it was another session");
    // Signing in with an issuer ends the earlier session as well.
    let before = browser.cookies.clone();
    let told = browser.leave("/").await;
    assert_eq!(browser.get(&come_back(&idp, &told, &[])).await.status, 200);
    old.cookies = before;
    assert_eq!(old.get(LOOK).await.status, 401);
    scene.stop().await;
}

#[tokio::test]
async fn a_cookie_counts_only_for_the_servers_own_pages() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp).await;
    let mut browser = Browser::new(&scene);
    let key = scene.keys["admin"].text.clone();
    browser.post("/console/sign-in", &format!("key={key}")).await;
    let own = format!("http://{}", scene.local.address);
    let json_body = ("content-type", "application/json");
    let acquire = acquire("o").to_string();
    for (headers, expected) in [
        (&[("origin", own.as_str()), ("sec-fetch-site", "same-origin"), json_body][..], 200),
        (&[("origin", "https://evil.example"), json_body], 403),
        (&[("origin", "null"), json_body], 403),
        (&[("sec-fetch-site", "cross-site"), json_body], 403),
        (&[("sec-fetch-site", "same-site"), json_body], 403),
        (
            &[
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "no-cors"),
                ("content-type", "text/plain"),
            ],
            403,
        ),
        (
            &[
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
                json_body,
            ],
            403,
        ),
        (&[("host", "evil.example"), json_body], 421),
    ] {
        let path = "/v1/locks/y/acquire";
        let answer = browser.send(Method::POST, path, headers, &acquire).await;
        assert_eq!(answer.status, expected, "{headers:?}: {answer:?}");
    }
    // A page of another site cannot sign the user in or out.
    for path in ["/console/sign-out", "/console/sign-in"] {
        let foreign = [("origin", "https://evil.example")];
        let answer = browser.send(Method::POST, path, &foreign, &format!("key={key}")).await;
        assert_eq!(answer.status, 403, "{path}");
    }
    assert_eq!(browser.get(LOOK).await.status, 200);
    scene.stop().await;
}

#[tokio::test]
async fn cookies_are_only_for_private_connections() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp).await;
    let mut browser = Browser::new(&scene);
    let key = scene.keys["reader"].text.clone();
    let through = [("x-forwarded-for", "192.0.2.1")];
    let form = format!("key={key}");
    for (method, path) in [(Method::GET, "/console/sign-in"), (Method::POST, "/console/sign-in")] {
        let answer = browser.send(method, path, &through, &form).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.text.contains("--trusted-proxies"), "{}", answer.text);
    }
    browser.post("/console/sign-in", &form).await;
    let answer = browser.send(Method::GET, LOOK, &through, "").await;
    assert_eq!(answer.status, 401, "{answer:?}");
    let twice = format!("{SESSION}={0}; {SESSION}={0}", browser.cookies[SESSION]);
    assert_eq!(scene.status(&[("cookie", &twice)], &format!("GET {LOOK}"), "").await, 401);
    // A session cookie and another principal's key are two principals, which is refused.
    let other = scene.proof("admin").remove(0).1;
    let answer = browser.send(Method::GET, LOOK, &[("authorization", &other)], "").await;
    assert_eq!(answer.status, 401, "{answer:?}");
    let same = scene.proof("reader").remove(0).1;
    assert_eq!(browser.send(Method::GET, LOOK, &[("authorization", &same)], "").await.status, 200);
    scene.stop().await;
}

#[tokio::test]
async fn pages_that_may_ask_have_to_say_who_asks() {
    let scene = Scene::with(RULES, &["reader"], |settings| {
        settings.http.cors_origins = ["https://app.example".to_owned()].into();
    })
    .await;
    let mut browser = Browser::new(&scene);
    let form = format!("key={}", scene.keys["reader"].text);
    browser.post("/console/sign-in", &form).await;
    assert_eq!(browser.get(LOOK).await.status, 200);
    let page = ("origin", "https://app.example");
    assert_eq!(browser.send(Method::GET, LOOK, &[page], "").await.status, 401, "no cookie of ours");
    let key = scene.proof("reader").remove(0).1;
    let shown = [page, ("authorization", key.as_str())];
    assert_eq!(browser.send(Method::GET, LOOK, &shown, "").await.status, 200);
    scene.stop().await;
}

#[tokio::test]
async fn a_trusted_proxy_may_say_that_it_is_private() {
    let scene = Scene::with(RULES, &["reader"], |settings| {
        settings.http.trusted_proxies = ["127.0.0.1/32".parse().expect("a network")].into();
    })
    .await;
    let mut browser = Browser::new(&scene);
    let form = format!("key={}", scene.keys["reader"].text);
    for (scheme, expected) in [("http", 400), ("https", 303)] {
        let said = [("x-forwarded-proto", scheme), ("x-forwarded-for", "192.0.2.1")];
        let answer = browser.send(Method::POST, "/console/sign-in", &said, &form).await;
        assert_eq!(answer.status, expected, "{scheme}: {answer:?}");
    }
    scene.stop().await;
}

#[tokio::test]
async fn a_session_ends_with_its_time_and_with_what_it_was_opened_by() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp).await;
    let mut browser = Browser::new(&scene);
    let told = browser.leave("/").await;
    browser.get(&come_back(&idp, &told, &[])).await;
    assert_eq!(browser.get(LOOK).await.status, 200);
    scene.local.advance_ms(3_600_000);
    assert_eq!(browser.get(LOOK).await.status, 401, "an hour");
    browser.cookies.clear();
    let key = scene.keys["reader"].text.clone();
    browser.post("/console/sign-in", &format!("key={key}")).await;
    assert_eq!(browser.get(LOOK).await.status, 200);
    crate::auth::write_keys(scene.file("keys.toml"), &Default::default(), "");
    scene
        .local
        .until("the key is gone", async |_| {
            scene.local.server.reload();
            browser.get(LOOK).await.status == 401
        })
        .await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signing_out_ends_pending_waits() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp).await;
    assert_eq!(scene.send("other", "POST /v1/locks/x/acquire", acquire("o")).await.status, 200);
    let mut browser = Browser::new(&scene);
    browser.post("/console/sign-in", &format!("key={}", scene.keys["admin"].text)).await;
    let mut waits = Browser { cookies: browser.cookies.clone(), ..Browser::new(&scene) };
    let wait = json!({"owner_id": "w", "ttl_ms": 60_000, "wait_ms": 60_000}).to_string();
    let kind = [("content-type", "application/json")];
    let waiting = waits.send(Method::POST, "/v1/locks/x/acquire", &kind, &wait);
    let leaving = async {
        scene
            .local
            .until("a client waits", async |_| {
                let lock = scene.send("admin", "GET /v1/locks/x", Value::Null).await;
                lock.body["n_waiting"] == 1
            })
            .await;
        browser.post("/console/sign-out", "").await
    };
    let (waiting, out) = tokio::join!(waiting, leaving);
    assert_eq!((waiting.status, out.status), (401, 303), "{waiting:?}");
    scene.stop().await;
}

#[tokio::test]
async fn no_more_than_so_many_are_signed_in() {
    let scene = Scene::with(RULES, &["reader", "taker"], |settings| {
        settings.auth.sign_ins_max = 1;
    })
    .await;
    let sign_in = async |name: &str| {
        let form = format!("key={}", scene.keys[name].text);
        Browser::new(&scene).post("/console/sign-in", &form).await
    };
    assert_eq!(sign_in("reader").await.status, 303);
    let refused = sign_in("taker").await;
    assert_eq!(refused.status, 503);
    assert!(refused.text.contains("auth-sign-ins-max"), "{}", refused.text);
    scene.stop().await;
}
