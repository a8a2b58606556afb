//! Tests of opaque tokens, which the server checks by asking the issuer's introspection endpoint.

use std::sync::atomic::Ordering::Relaxed;

use leasehold_testkit::{Value, json};

use crate::auth::Scene;
use crate::auth::idp::{Idp, Key, NOW};
use crate::auth::token::oidc;

const LOOK: &str = "GET /v1/locks/x";

async fn scene(idp: &Idp, lookups_per_minute: u32) -> Scene {
    let more = format!(
        "introspection = {{ url = \"{}/introspect\", client-id = \"lh\", secret-file = \"intro\" }}",
        idp.url()
    );
    let scene = Scene::with_files(
        &oidc(idp, &more),
        &["admin"],
        &[("intro", "intro/secret\n")],
        |settings| {
            settings.auth.failures_per_minute = 10_000;
            settings.auth.lookups_per_minute = lookups_per_minute;
        },
    )
    .await;
    scene.local.clock.set_wall_ms(NOW * 1000);
    scene
}

fn active(more: Value) -> Value {
    let mut answer = json!({
        "active": true, "sub": "alice", "aud": "leasehold", "exp": NOW + 3600,
        "token_type": "Bearer", "groups": ["payments"],
    });
    let more = more.as_object().expect("an object").clone();
    more.into_iter().for_each(|(name, value)| answer[name] = value);
    answer
}

fn know(idp: &Idp, token: &str, answer: Value) {
    idp.opaque.lock().expect("not poisoned").insert(token.into(), answer);
}

#[tokio::test]
async fn an_opaque_token_is_what_its_issuer_says_and_is_asked_for_once_a_minute() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp, 600).await;
    know(&idp, "opaque-1", active(json!({})));
    let n = || idp.n_introspections.load(Relaxed);
    for _ in 0..5 {
        assert_eq!(scene.by("opaque-1", LOOK, Value::Null).await.status, 200);
    }
    assert_eq!(n(), 1);
    // The issuer revokes the token. The server notices within a minute.
    know(&idp, "opaque-1", json!({"active": false}));
    scene.local.advance_ms(60_000);
    for _ in 0..5 {
        assert_eq!(scene.by("opaque-1", LOOK, Value::Null).await.status, 401);
    }
    assert_eq!(n(), 2, "a refusal is remembered too");
    know(&idp, "opaque-1", active(json!({})));
    scene.local.advance_ms(10_000);
    assert_eq!(scene.by("opaque-1", LOOK, Value::Null).await.status, 200);
    idp.is_down.store(true, Relaxed);
    assert_eq!(scene.by("opaque-1", LOOK, Value::Null).await.status, 200);
    let answer = scene.by("opaque-2", LOOK, Value::Null).await;
    assert_eq!(answer.status, 503, "the provider is unavailable: {answer:?}");
    scene.stop().await;
}

#[tokio::test]
async fn an_active_token_might_be_for_another_service() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp, 600).await;
    let without = |name: &str, more: Value| {
        let mut answer = active(more);
        answer.as_object_mut().expect("an object").remove(name);
        answer
    };
    for (n, (answer, expected)) in [
        (active(json!({"aud": "other"})), 401),
        (active(json!({"iss": "https://evil.example"})), 401),
        (active(json!({"iss": idp.url()})), 200),
        (active(json!({"exp": NOW - 31})), 401),
        (active(json!({"nbf": NOW + 31})), 401),
        (active(json!({"active": "true"})), 401),
        (active(json!({"token_type": "refresh_token"})), 401),
        (active(json!({"typ": "Refresh"})), 401),
        (active(json!({"sub": 1})), 401),
        (without("sub", json!({})), 401),
        (without("aud", json!({})), 401),
        (without("aud", json!({"client_id": "other"})), 401),
        (without("aud", json!({"client_id": "leasehold"})), 200),
        (without("exp", json!({})), 200),
        (json!({"active": false}), 401),
        (json!([]), 503),
    ]
    .into_iter()
    .enumerate()
    {
        let token = format!("opaque-token-{n}-x");
        know(&idp, &token, answer.clone());
        let told = scene.by(&token, LOOK, Value::Null).await;
        assert_eq!(told.status, expected, "{answer}: {told:?}");
    }
    scene.stop().await;
}

#[tokio::test]
async fn questions_are_limited_for_one_address_and_secrets_of_ours_are_never_asked_about() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp, 5).await;
    // A files session id and an API key are never sent to an issuer.
    for secret in ["0a".repeat(42), "lh_0000000000_1".into()] {
        assert_eq!(scene.by(&secret, LOOK, Value::Null).await.status, 401);
    }
    // Credentials in cross-site requests are not sent to the issuer either.
    let foreign = [("authorization", "Bearer opaque"), ("origin", "https://evil.example")];
    assert_eq!(scene.status(&foreign, LOOK, "").await, 403);
    let host = [("authorization", "Bearer opaque"), ("host", "evil.example")];
    assert_eq!(scene.status(&host, LOOK, "").await, 421);
    assert_eq!(idp.n_introspections.load(Relaxed), 0);
    let mut statuses = Vec::new();
    for n in 0..8 {
        statuses.push(scene.by(&format!("guess-{n}"), LOOK, Value::Null).await.status);
    }
    assert_eq!(statuses, [401, 401, 401, 401, 401, 429, 429, 429]);
    assert_eq!(idp.n_introspections.load(Relaxed), 5);
    scene.stop().await;
}
