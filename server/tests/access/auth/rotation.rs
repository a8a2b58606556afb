//! Tests of an issuer's signing keys: which of them are accepted, and how they rotate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use leasehold_server::dialect::Dialect;
use leasehold_testkit::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

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
        assert_eq!(idp.n_jwks(), 0, "no request was sent");
        scene.stop().await;
    }
}

#[tokio::test]
async fn a_new_key_is_fetched_once_for_all_clients() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene(&idp, "").await;
    assert_eq!(scene.look(&idp.token()).await.0, 200);
    let fetched = idp.n_jwks();
    idp.keys.lock().expect("not poisoned").insert("second".into(), Key::ec());
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
    idp.keys.lock().expect("not poisoned").insert("second".into(), Key::ec());
    let answer = scene.by(&idp.token_of("second", &claims), LOOK, Value::Null).await;
    assert_eq!(answer.status, 503, "the provider is unavailable: {answer:?}");
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
        let mut keys = idp.keys.lock().expect("not poisoned");
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
    /// Makes the server refresh its issuers' keys until `/metrics` contains this line.
    pub(super) async fn until_counted(&self, line: &str) {
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
    idp.keys.lock().expect("not poisoned").clear();
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
    idp.keys.lock().expect("not poisoned").insert("first".into(), first);
    scene.local.advance_ms(10_000);
    assert_eq!(scene.look(&another).await.0, 200, "it has keys again");
    scene.stop().await;
}

#[tokio::test]
async fn an_empty_key_set_in_a_file_withdraws_all_keys() {
    let idp = Idp::start(Key::ec()).await;
    let folder = leasehold_testkit::folder();
    let path = folder.path().join("jwks.json");
    let write = |keys: Value| {
        std::fs::write(&path, json!({"keys": keys}).to_string()).expect("a file");
    };
    write(json!([idp.key("first").jwk("first")]));
    let scene = scene(&idp, &format!("jwks-file = \"{}\"", path.display())).await;
    let token = idp.token();
    assert_eq!(scene.look(&token).await.0, 200);
    for (keys, expected) in [(json!([]), 401), (json!([idp.key("first").jwk("first")]), 200)] {
        write(keys);
        scene
            .local
            .until("the file was read again", async |_| {
                scene.local.server.reload();
                scene.look(&token).await.0 == expected
            })
            .await;
    }
    scene.stop().await;
}

#[tokio::test]
async fn keys_that_cannot_be_fetched_count_for_so_long_and_no_longer() {
    let idp = Idp::start(Key::ec()).await;
    let age_max = Duration::from_secs(1800);
    let scene = scene_with(&idp, "", |settings| settings.auth.keys_age_max = age_max).await;
    let token = idp.token();
    scene.until_counted("leasehold_issuer_tokens{issuer=\"oidc\"} 0").await;
    assert_eq!(scene.look(&token).await.0, 200);
    scene.until_counted("leasehold_issuer_tokens{issuer=\"oidc\"} 1").await;
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
        assert_eq!(status, 503, "the provider is unavailable: {why}");
    }
    idp.is_down.store(false, Relaxed);
    scene.local.advance_ms(10_000);
    assert_eq!(scene.look(&token).await.0, 200);
    scene.stop().await;
}

/// Long-running uses of a token: a Redis connection, an event stream, and a waiting acquire.
struct GoesOn {
    redis: TcpStream,
    stream: TcpStream,
    waiting: JoinHandle<u16>,
}

impl GoesOn {
    async fn begin(scene: &Arc<Scene>, token: &str, lock: &str) -> Self {
        let redis = scene.local.server.listening(Dialect::Redis).expect("it listens");
        let redis = TcpStream::connect(redis).await.expect("a connection");
        let mut stream = TcpStream::connect(scene.local.address).await.expect("a connection");
        let request = format!(
            "GET /v1/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.expect("it is there");
        let line = format!("POST /v1/locks/{lock}/acquire");
        let (asking, bearer, begun) = (scene.clone(), token.to_owned(), Arc::new(Notify::new()));
        let begin = begun.clone();
        let waiting = tokio::spawn(async move {
            begin.notified().await;
            let wait = json!({"owner_id": "w", "ttl_ms": 60_000, "wait_ms": 3_600_000});
            asking.by(&bearer, &line, wait).await.status
        });
        let mut goes_on = Self { redis, stream, waiting };
        goes_on.until_told("\r\n\r\n").await;
        let hold = json!({"owner_id": "o", "ttl_ms": 7_200_000});
        let held = scene.send("other", &format!("POST /v1/locks/{lock}/acquire"), hold).await;
        assert_eq!(held.status, 200, "{held:?}");
        begun.notify_one();
        goes_on.until_told("event: queued").await;
        assert_eq!(goes_on.ask(&["AUTH", token]).await, "+OK\r\n");
        goes_on.counts(&format!("{lock}-1")).await;
        goes_on
    }

    /// Sends a Redis command and returns its one-line response.
    async fn ask(&mut self, words: &[&str]) -> String {
        let mut command = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| command += &format!("${}\r\n{word}\r\n", word.len()));
        self.redis.write_all(command.as_bytes()).await.expect("it is there");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n") {
            let n = self.redis.read_buf(&mut answer).await.expect("an answer");
            assert!(n > 0, "it ended: {}", String::from_utf8_lossy(&answer));
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Reads the event stream up to `word`. Returns `None` if the stream has ended.
    async fn told(&mut self, word: &str) -> Option<String> {
        let mut told = Vec::new();
        let reading = async {
            while !String::from_utf8_lossy(&told).contains(word) {
                if self.stream.read_buf(&mut told).await.expect("more") == 0 {
                    return None;
                }
            }
            Some(String::from_utf8_lossy(&told).into_owned())
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("in time")
    }

    async fn until_told(&mut self, word: &str) {
        self.told(word).await.expect("the stream goes on");
    }

    /// Checks that all three still work: the Redis connection acquires this lock, the stream reports it, and the
    /// acquire still waits.
    async fn counts(&mut self, lock: &str) {
        assert_eq!(self.ask(&["SET", lock, "me", "NX", "PX", "60000"]).await, "+OK\r\n");
        self.until_told(&format!("\"lock_name\":\"{lock}\"")).await;
        assert!(!self.waiting.is_finished());
    }

    async fn has_ended(mut self) {
        assert_eq!(self.told("no event says this").await, None);
        let answer = self.ask(&["SET", "more", "me", "NX", "PX", "60000"]).await;
        assert!(answer.starts_with("-NOAUTH"), "{answer}");
        let waiting = tokio::time::timeout(PATIENCE, self.waiting).await.expect("in time");
        assert_eq!(waiting.expect("an answer"), 401);
    }
}

/// Test timeout, longer than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

async fn scene_with_redis(idp: &Idp) -> Arc<Scene> {
    let scene = scene_with(idp, "", |settings| {
        settings.dialect.redis.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        settings.dialect.redis.namespace = "default".into();
        settings.auth.keys_age_max = Duration::from_secs(1800);
    });
    Arc::new(scene.await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_on_by_a_token_ends_with_the_key_that_signed_it() {
    let idp = Idp::start(Key::ec()).await;
    idp.keys.lock().expect("not poisoned").insert("second".into(), Key::ec());
    let scene = scene_with_redis(&idp).await;
    let by_first = GoesOn::begin(&scene, &idp.token(), "a").await;
    let mut by_second = GoesOn::begin(&scene, &idp.token_of("second", &idp.claims()), "b").await;
    idp.keys.lock().expect("not poisoned").remove("first");
    scene.local.advance_ms(300_000);
    scene.until_counted("leasehold_issuer_keys{issuer=\"oidc\"} 1").await;
    by_first.has_ended().await;
    by_second.counts("b-2").await;
    idp.keys.lock().expect("not poisoned").clear();
    scene.local.advance_ms(300_000);
    scene.until_counted("leasehold_issuer_keys{issuer=\"oidc\"} 0").await;
    by_second.has_ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_on_by_a_token_ends_with_keys_that_are_too_old() {
    let idp = Idp::start(Key::ec()).await;
    let scene = scene_with_redis(&idp).await;
    let mut goes_on = GoesOn::begin(&scene, &idp.token(), "a").await;
    idp.is_down.store(true, Relaxed);
    scene.local.advance_ms(1_800_000);
    scene.until_counted("leasehold_issuer_keys_age_seconds{issuer=\"oidc\"} 1800").await;
    goes_on.counts("a-2").await;
    scene.local.advance_ms(1);
    scene.until_counted("leasehold_issuer_keys{issuer=\"oidc\"} 0").await;
    goes_on.has_ended().await;
}
