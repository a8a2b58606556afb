//! Tests of authentication: an API key as the password, and the rules for its principal.

use leasehold_server::audit;
use leasehold_testkit::{Value, settings};

use crate::doors::redis::{DELETE, EXPIRE, Scene, request_of};

const RULES: &str = r#"
version = 1
key-files = ["keys.toml"]

[[rule]]
name = "takers"
who = ["key:taker", "key:other"]
may = ["acquire"]
namespaces = ["redis"]

[[rule]]
name = "readers"
who = ["key:reader"]
may = ["read"]
namespaces = ["redis*"]

[[rule]]
name = "revokers"
who = ["key:revoker"]
may = ["revoke"]
namespaces = ["redis"]
"#;

struct Guarded {
    scene: Scene,
    files: leasehold_testkit::Guarded,
}

impl Guarded {
    async fn new() -> Self {
        Self::with(RULES).await
    }

    async fn with(rules: &str) -> Self {
        let names = ["taker", "other", "reader", "revoker"];
        let files = leasehold_testkit::Guarded::new(rules, &names);
        let scene = Scene::with(settings(None), |settings| {
            settings.auth_file = Some(files.file());
            settings.audit = Some(audit::Options::new(files.folder().join("audit.log")));
        })
        .await;
        Self { scene, files }
    }

    fn key(&self, name: &str) -> &str {
        self.files.key(name)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_has_so_long_to_authenticate_and_so_much_to_say() {
    let files = leasehold_testkit::Guarded::new(RULES, &["taker"]);
    let with = async |auth_timeout| {
        Scene::with(settings(None), |settings| {
            settings.auth_file = Some(files.file());
            settings.dialect.redis.auth_timeout = auth_timeout;
        })
        .await
    };
    let scene = with(std::time::Duration::from_secs(3)).await;
    let mut known = scene.connect().await;
    known.check(&format!("AUTH {} => OK", files.key("taker"))).await;
    // One client sends nothing, one sends a command without a key, and one sends a command that never ends.
    for begun in ["", "PING\r\n", "*2\r\n$4\r\nAUTH\r\n$8000\r\nx"] {
        let mut client = scene.connect().await;
        client.send(begun.as_bytes()).await;
        if begun.starts_with("PING") {
            assert!(client.read().await.starts_with("-NOAUTH Authentication required."));
        }
        let told = client.read().await;
        assert!(told.contains("redis-auth-timeout"), "{begun:?}: {told}");
        assert_eq!(client.read().await, "end");
    }
    known.check("SET job me NX PX 60000 => OK").await;

    let scene = with(crate::doors::redis::PATIENCE).await;
    let long = "a".repeat(20_000);
    for (bytes, why) in [
        (format!("*2\r\n$4\r\nAUTH\r\n$20000\r\n{long}"), "16384 bytes before AUTH"),
        ("*17\r\n".into(), "16 words before AUTH"),
        (long.clone(), "16384 bytes before AUTH"),
    ] {
        let mut client = scene.connect().await;
        client.send(bytes.as_bytes()).await;
        let told = client.read().await;
        assert!(told.starts_with("-ERR Protocol error") && told.contains(why), "{told}");
        assert_eq!(client.read().await, "end");
    }
    // Once the client is authenticated, a command can be as long as usual, even in the same packet as AUTH.
    let mut client = scene.connect().await;
    let auth = request_of(&["AUTH", files.key("taker")]);
    client.send(&[auth, request_of(&["SET", "job", &long, "NX", "PX", "1"])].concat()).await;
    assert_eq!(client.read().await, "OK");
    assert!(!client.read().await.contains("Protocol error"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_runs_before_authentication() {
    let guarded = Guarded::new().await;
    let mut client = guarded.scene.connect().await;
    let taker = guarded.key("taker");
    client
        .check(&format!(
            r#"
            PING => -NOAUTH Authentication required. ...
            HELLO 3 => -NOAUTH Authentication required. ...
            SET job me NX PX 1000 => -NOAUTH Authentication required. ...
            EVAL x 0 => -NOAUTH Authentication required. ...
            SCRIPT LOAD x => -NOAUTH Authentication required. ...
            GET => -NOAUTH Authentication required. ...
            FLUSHALL => -NOAUTH Authentication required. ...
            AUTH => -ERR wrong number of arguments for 'auth' command
            AUTH wrong => -WRONGPASS invalid username-password pair or user is disabled.
            AUTH lh_wrong_key => -WRONGPASS invalid username-password pair or user is disabled.
            HELLO 3 AUTH default wrong => -WRONGPASS ...
            AUTH {taker} => OK
            SET job me NX PX 60000 => OK
            AUTH wrong => -WRONGPASS ...
            GET job => "me"
            "#
        ))
        .await;
    let mut other = guarded.scene.connect().await;
    let other_key = guarded.key("other");
    other.check(&format!("HELLO 3 AUTH default {other_key} => {{\"server\" ...")).await;
    // Another principal sees only the start of the value, and cannot use the full value as a proof.
    other
        .check(&format!(
            r#"
            GET job => "m..."
            EVALSHA {DELETE} 1 job me => 0
            EVALSHA {EXPIRE} 1 job me 5000 => 0
            "#
        ))
        .await;
    client.check(&format!("EVALSHA {DELETE} 1 job me => 1\nQUIT => OK")).await;
    let seen = std::fs::read_to_string(guarded.files.folder().join("audit.log")).unwrap();
    assert!(seen.contains("\"key:taker\"") && seen.contains("\"redis\""), "{seen}");
    assert!(!seen.contains(taker), "no key is written down");
    guarded.scene.local.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_database_is_a_namespace_with_rights_of_its_own() {
    let guarded = Guarded::new().await;
    let mut taker = guarded.scene.connect().await;
    taker.check(&format!("AUTH {} => OK", guarded.key("taker"))).await;
    taker
        .check(
            "SET job me NX PX 60000 => OK
             SELECT 1 => OK
             SET job me NX PX 60000 => -NOPERM ...
             GET job => -NOPERM ...
             SELECT 0 => OK",
        )
        .await;
    let mut reader = guarded.scene.connect().await;
    reader.check(&format!("AUTH {} => OK", guarded.key("reader"))).await;
    reader.check("GET job => \"m...\nPTTL job => 60000\nSELECT 2 => OK\nGET job => nil").await;
    let mut revoker = guarded.scene.connect().await;
    revoker.check(&format!("AUTH {} => OK", guarded.key("revoker"))).await;
    revoker.check("PEXPIRE job 5000 => 1\nPTTL job => 5000\nDEL job => 1\nEXISTS job => 0").await;
    assert_eq!(taker.ask(&format!("EVALSHA {DELETE} 1 job me")).await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_revoked_counts_no_more() {
    let guarded = Guarded::new().await;
    let mut client = guarded.scene.connect().await;
    client.check(&format!("AUTH {} => OK\nPING => PONG", guarded.key("taker"))).await;
    guarded.files.revoke("taker");
    guarded.scene.local.server.reload();
    for _ in 0..24_000 {
        if client.ask("PING").await.starts_with("-NOAUTH") {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("the key still counts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_are_limited() {
    let guarded = Guarded::new().await;
    let mut client = guarded.scene.connect().await;
    for _ in 0..60 {
        client.check("AUTH wrong => -WRONGPASS ...").await;
    }
    client.check("AUTH wrong => -ERR too many wrong credentials from this address...").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_value_of_a_lock_is_shown_whole_to_its_principal_only() {
    let guarded = Guarded::new().await;
    let (mut taker, mut reader) = (guarded.scene.connect().await, guarded.scene.connect().await);
    let value = "f1a2b3c4d5e6f7a8b9c0";
    taker.check(&format!("AUTH {} => OK", guarded.key("taker"))).await;
    reader.check(&format!("AUTH {} => OK", guarded.key("reader"))).await;
    taker.check(&format!("SET job {value} NX PX 60000 => OK\nGET job => \"{value}\"")).await;
    reader.check("GET job => \"f1a2b3c4...\"").await;
    taker.check(&format!("EVALSHA {DELETE} 1 job {value} => 1")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_from_another_principal_is_told() {
    let guarded = Guarded::new().await;
    let (mut taker, mut revoker) = (guarded.scene.connect().await, guarded.scene.connect().await);
    taker.check(&format!("AUTH {} => OK", guarded.key("taker"))).await;
    revoker.check(&format!("AUTH {} => OK", guarded.key("revoker"))).await;
    taker.check("SET a me NX PX 60000 => OK\nSET b me NX PX 60000 => OK").await;
    revoker.check("PEXPIRE a 5000 => 1\nDEL a none => 1\nPEXPIRE b 0 => 1\nDEL b => 0").await;
    // The right to revoke locks in one namespace does not make a principal an operator, but revocations that ended
    // leases of other principals are kept with the acts of operators.
    let text = std::fs::read_to_string(guarded.files.folder().join("audit.log.admin")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told: Vec<_> = lines
        .filter(|line| line["act"] == "revoke")
        .map(|line| {
            assert_eq!(line["by"]["principal"], "key:revoker");
            assert_eq!(line["by"]["rule"], "revokers");
            let reason = line["claimed"]["reason"].as_str().unwrap().to_owned();
            (line["lock"].as_str().unwrap().to_owned(), reason)
        })
        .collect();
    let expected =
        [("a", "expiry set by PEXPIRE"), ("a", "deleted by DEL"), ("b", "expired by PEXPIRE")];
    let through =
        |(lock, what): (&str, &str)| (lock.to_owned(), format!("{what} through the redis dialect"));
    assert_eq!(told, expected.map(through));
    guarded.scene.local.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_its_limit_a_client_renews_and_releases_and_prepares_to() {
    let quota = "[[quota]]\nwho = [\"key:taker\"]\nrequests-per-second = 5\n";
    let guarded = Guarded::with(&format!("{RULES}{quota}")).await;
    let (mut client, mut other) = (guarded.scene.connect().await, guarded.scene.connect().await);
    client.check(&format!("AUTH {} => OK", guarded.key("taker"))).await;
    other.check(&format!("AUTH {} => OK", guarded.key("other"))).await;
    // Invalid commands count toward the request limit too.
    client
        .check(&format!(
            r#"
            SET job me NX PX 60000 => OK
            GET => -ERR wrong number of arguments...
            FLUSHALL => -ERR unknown command...
            MULTI => -ERR MULTI is not supported...
            DISCARD => OK
            GET job => -ERR too many requests of key:taker; limit: 5 per second...
            SET other me NX => -ERR too many requests...
            EXISTS job => -ERR too many requests...
            DEL => -ERR too many requests...
            FLUSHALL => -ERR too many requests...
            MULTI => -ERR too many requests...
            EXEC => -ERR too many requests...
            PING => PONG
            EVALSHA {EXPIRE} 1 job me 50000 => 1
            "#
        ))
        .await;
    other.check("GET job => \"m...\"").await;
    for n in 0..17 {
        let answer = client.ask("SELECT 0").await;
        assert_eq!(answer == "OK", n < 16, "{n}: {answer}");
    }
    for line in ["INFO", "HELLO 2", "CLIENT ID", "SCRIPT EXISTS x"] {
        assert!(client.ask(line).await.starts_with("-ERR too many requests"), "{line}");
    }
    client.check(&format!("PING => PONG\nEVALSHA {DELETE} 1 job me => 1")).await;
    guarded.scene.local.advance_ms(1000);
    client.check("INFO => \"# Server...\nGET job => nil").await;
    guarded.scene.local.stop().await;
}
