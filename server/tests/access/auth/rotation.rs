//! The keys of an issuer: which count, and how they change.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use leasehold_testkit::{Value, json};

use crate::auth::Scene;
use crate::auth::idp::{Idp, Key};
use crate::auth::token::{LOOK, scene, scene_with};

#[tokio::test]
async fn keys_are_for_what_they_are_for() {
    let (idp, small) = (Idp::start(Key::ec()).await, Key::ec());
    let folder = leasehold_testkit::folder();
    let write = |keys: Value| {
        std::fs::write(folder.path().join("jwks.json"), json!({"keys": keys}).to_string())
            .expect("a file");
    };
    let with = |change: &[(&str, Value)]| {
        let mut jwk = small.jwk("k");
        change.iter().for_each(|(name, value)| jwk[*name] = value.clone());
        jwk
    };
    let file = format!("jwks-file = \"{}\"", folder.path().join("jwks.json").display());
    let header = r#"{"alg":"ES256","kid":"k"}"#;
    let token = small.token(header, &idp.claims().to_string());
    let other = idp.key("first").jwk("other");
    for (change, expected) in [
        (&[][..], 200),
        (&[("alg", json!("ES256"))], 200),
        (&[("key_ops", json!(["verify"]))], 200),
        (&[("alg", json!("ES384"))], 401),
        (&[("alg", json!("RS256"))], 401),
        (&[("use", json!("enc"))], 401),
        (&[("key_ops", json!(["encrypt"]))], 401),
        (&[("kty", json!("oct")), ("k", json!("AAAA"))], 401),
        (&[("crv", json!("P-384"))], 401),
        (&[("x", json!("AAAA"))], 401),
    ] {
        write(json!([other.clone(), with(change)]));
        let scene = scene(&idp, &file).await;
        let (status, told) = scene.look(&token).await;
        assert_eq!(status, expected, "{change:?}: {told}");
        assert_eq!(idp.n_jwks(), 0, "nobody was asked");
        scene.stop().await;
    }
}

#[tokio::test]
async fn a_new_key_is_fetched_once_and_not_for_everybody_who_asks() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp, "").await;
    assert_eq!(scene.look(&idp.token()).await.0, 200);
    let fetched = idp.n_jwks();
    idp.keys.lock().expect("nobody panicked").insert("second".into(), Key::ec());
    let new = idp.token_of("second", &idp.claims());
    assert_eq!(scene.look(&new).await.0, 401, "no sooner than ten seconds after the last time");
    assert_eq!(idp.n_jwks(), fetched);
    scene.local.advance_ms(10_000);
    let claims = idp.claims().to_string();
    let flood = (0..50).map(|n| {
        let header = format!("{{\"alg\":\"ES256\",\"kid\":\"made-up-{n}\"}}");
        idp.key("first").token(&header, &claims)
    });
    for token in flood {
        assert_eq!(scene.look(&token).await.0, 401);
    }
    assert_eq!(idp.n_jwks(), fetched + 1, "once for all of them");
    assert_eq!(scene.look(&new).await.0, 200, "and the new key came with it");
    scene.stop().await;
}

#[tokio::test]
async fn what_was_known_counts_while_the_issuer_is_down() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp, "").await;
    assert_eq!(scene.look(&idp.token()).await.0, 200);
    idp.is_down.store(true, Relaxed);
    scene.local.advance_ms(400_000);
    let mut claims = idp.claims();
    claims["jti"] = json!("another");
    assert_eq!(scene.look(&idp.token_of("first", &claims)).await.0, 200, "its keys are kept");
    idp.keys.lock().expect("nobody panicked").insert("second".into(), Key::ec());
    let answer = scene.by(&idp.token_of("second", &claims), LOOK, Value::Null).await;
    assert_eq!(answer.status, 503, "nobody can tell: {answer:?}");
    assert!(answer.headers.contains_key("retry-after"));
    idp.is_down.store(false, Relaxed);
    scene.local.advance_ms(10_000);
    assert_eq!(scene.look(&idp.token_of("second", &claims)).await.0, 200);
    scene.stop().await;
}

#[tokio::test]
async fn a_key_that_was_withdrawn_is_noticed_also_by_what_is_remembered() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp, "").await;
    let token = idp.token();
    assert_eq!(scene.look(&token).await.0, 200);
    {
        let mut keys = idp.keys.lock().expect("nobody panicked");
        keys.clear();
        keys.insert("second".into(), Key::ec());
    }
    assert_eq!(scene.look(&token).await.0, 200, "it is remembered");
    scene.local.advance_ms(300_000);
    scene
        .local
        .until("its keys were fetched again", async |_| {
            scene.local.server.reload();
            scene.look(&token).await.0 == 401
        })
        .await;
    scene.stop().await;
}

#[tokio::test]
async fn keys_come_from_where_the_file_says_and_from_nowhere_else() {
    let idp = Idp::start(Key::ec()).await;
    for (path, expected) in [("jwks", 200), ("moved", 503), ("huge", 503), ("missing", 503)] {
        let scene = scene(&idp, &format!("jwks-url = \"{}/{path}\"", idp.url())).await;
        let (status, told) = scene.look(&idp.token()).await;
        assert_eq!(status, expected, "{path}: {told}");
        scene.stop().await;
    }
}

#[tokio::test]
async fn no_more_than_so_many_questions_for_one_address() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene_with(&idp, "", |settings| settings.auth.lookups_per_minute = 2).await;
    let claims = idp.claims().to_string();
    let mut statuses = Vec::new();
    for n in 0..4 {
        scene.local.advance_ms(10_000);
        let header = format!("{{\"alg\":\"ES256\",\"kid\":\"made-up-{n}\"}}");
        statuses.push(scene.look(&idp.key("first").token(&header, &claims)).await.0);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(statuses[0], 401);
    scene.stop().await;
}

impl Scene {
    /// Has the server tend to its issuers until `/metrics` has this line.
    async fn until_counted(&self, line: &str) {
        self.local
            .until(line, async |_| {
                self.local.server.reload();
                let metrics = self.send("admin", "GET /metrics", Value::Null).await.text;
                metrics.lines().any(|known| known == line)
            })
            .await;
    }
}

#[tokio::test]
async fn an_empty_key_set_withdraws_all_keys() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp, "").await;
    let token = idp.token();
    assert_eq!(scene.look(&token).await.0, 200);
    scene.until_counted("leasehold_issuer_keys{issuer=\"oidc\"} 1").await;
    let first = idp.key("first");
    idp.keys.lock().expect("nobody panicked").clear();
    scene.local.advance_ms(300_000);
    let empty = "leasehold_issuer_fetches_total{issuer=\"oidc\",result=\"empty\"}";
    scene.until_counted(&format!("{empty} 1")).await;
    let mut claims = idp.claims();
    claims["jti"] = json!("another");
    let header = r#"{"alg":"ES256","kid":"first"}"#;
    let another = first.token(header, &claims.to_string());
    for token in [&token, &another] {
        let (status, why) = scene.look(token).await;
        assert_eq!(status, 401, "all its keys are withdrawn: {why}");
    }
    scene.until_counted("leasehold_issuer_keys{issuer=\"oidc\"} 0").await;
    idp.keys.lock().expect("nobody panicked").insert("first".into(), first);
    scene.local.advance_ms(10_000);
    assert_eq!(scene.look(&another).await.0, 200, "it has keys again");
    scene.stop().await;
}

#[tokio::test]
async fn keys_that_cannot_be_fetched_count_for_so_long_and_no_longer() {
    let idp = Idp::start(Key::ec()).await;
    let age_max = Duration::from_secs(1800);
    let scene = scene_with(&idp, "", |settings| settings.auth.keys_age_max = age_max).await;
    let token = idp.token();
    assert_eq!(scene.look(&token).await.0, 200);
    idp.is_down.store(true, Relaxed);
    scene.local.advance_ms(1_800_000);
    scene.until_counted("leasehold_issuer_keys_age_seconds{issuer=\"oidc\"} 1800").await;
    let mut claims = idp.claims();
    claims["jti"] = json!("another");
    let another = idp.token_of("first", &claims);
    for token in [&token, &another] {
        assert_eq!(scene.look(token).await.0, 200, "not older than they may be");
    }
    scene.local.advance_ms(1);
    scene.until_counted("leasehold_issuer_keys{issuer=\"oidc\"} 0").await;
    for token in [&token, &another] {
        let (status, why) = scene.look(token).await;
        assert_eq!(status, 503, "nobody can tell: {why}");
    }
    idp.is_down.store(false, Relaxed);
    scene.local.advance_ms(10_000);
    assert_eq!(scene.look(&token).await.0, 200);
    scene.stop().await;
}
