//! Tests of Redis connections: the commands before the first lock, pipelines, and malformed commands.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leasehold_server::dialect::Dialect;
use leasehold_testkit::{Ca, folder, settings};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use crate::doors::redis::{Client, DELETE, EXPIRE, PATIENCE, Scene, request};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_versions_of_the_protocol_are_spoken() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await;
    client
        .check(
            r#"
            PING => PONG
            ping hello => "hello"
            CLIENT SETINFO LIB-NAME redis-py => OK
            CLIENT SETNAME me => OK
            CLIENT GETNAME => nil
            CLIENT MAINT_NOTIFICATIONS ON => -ERR unknown subcommand 'MAINT_NOTIFICATIONS' of CLIENT
            HELLO 4 => -NOPROTO unsupported protocol version
            HELLO 2 => ["server" "leasehold" "version" "7.0.0" "proto" 2 ...
            AUTH anything => OK
            AUTH default anything => OK
            "#,
        )
        .await;
    client
        .check("HELLO 3 => {\"server\" \"leasehold\" \"version\" \"7.0.0\" \"proto\" 3 ...")
        .await;
    client.send(&request("GET absent")).await;
    assert_eq!(client.line().await.as_deref(), Some("_"));
    let info = client.ask("INFO").await;
    assert!(info.contains("loading:0") && info.contains("redis_version:7.0.0"), "{info}");
    let id = client.ask("CLIENT ID").await;
    assert!(id.parse::<u32>().is_ok(), "{id}");
    client.check("QUIT => OK").await;
    assert_eq!(client.read().await, "end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_arrives_together_is_one_commit_and_answered_in_order() {
    let data = folder();
    let scene = Scene::with(settings(Some(data.path())), |_| {}).await;
    let mut client = scene.connect().await;
    client.check("SET before me NX PX 60000 => OK").await;
    let n_before = scene.metric("leasehold_commit_seconds_count").await;
    let mut bytes = Vec::new();
    for n in 0..8 {
        bytes.extend(request(&format!("SET k{n} me NX PX 60000")));
        bytes.extend(request(&format!("EVALSHA {DELETE} 1 k{n} me")));
    }
    bytes.extend(request("PING"));
    bytes.extend(request("FLUSHALL"));
    bytes.extend(request("SET k0 you NX PX 60000"));
    client.send(&bytes).await;
    for _ in 0..8 {
        assert_eq!((client.read().await, client.read().await), ("OK".into(), "1".into()));
    }
    assert_eq!(client.read().await, "PONG");
    assert!(client.read().await.starts_with("-ERR unknown command 'FLUSHALL'"));
    assert_eq!(client.read().await, "OK");
    let n_commits = scene.metric("leasehold_commit_seconds_count").await - n_before;
    assert_eq!(n_commits, 1);
    let counted = "leasehold_redis_commands_total{command=\"other\",result=\"error\"}";
    assert_eq!(scene.metric(counted).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_looks_first_keeps_its_place_in_a_pipeline() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await;
    let lines = [
        "SET a me NX PX 1000",
        "PEXPIRE a 50",
        "PTTL a",
        "HELLO 3",
        "GET b",
        "SELECT 1",
        "GET a",
        "QUIT",
        "PING",
    ];
    client.send(&lines.map(request).concat()).await;
    for expected in ["OK", "1", "50", "{", "nil", "OK", "nil", "OK", "end"] {
        let answer = client.read().await;
        assert!(answer.starts_with(expected), "{answer}, not {expected}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_a_pipeline_may_have_is_answered_too() {
    let scene = Scene::with(settings(None), |settings| {
        settings.dialect.redis.pipeline_max = 3;
    })
    .await;
    let mut client = scene.connect().await;
    let lines: Vec<_> =
        (0..100).flat_map(|n| request(&format!("SET k{n} me NX PX 9000"))).collect();
    client.send(&lines).await;
    for n in 0..100 {
        assert_eq!(client.read().await, "OK", "{n}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_typed_line_is_a_command() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await;
    for (line, expected) in [
        ("PING", "PONG"),
        ("set 'nightly job' me nx px 60000", "OK"),
        ("GET \"nightly job\"", "\"me\""),
        ("FLUSHALL", "-ERR unknown command"),
        ("QUIT", "OK"),
    ] {
        client.send(format!("{line}\r\n").as_bytes()).await;
        let answer = client.read().await;
        assert!(answer.starts_with(expected), "{line}: {answer}");
    }
    assert_eq!(client.read().await, "end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_command_ends_the_connection() {
    let scene = Scene::with(settings(None), |settings| {
        settings.dialect.redis.command_bytes_max = 1024;
    })
    .await;
    let long = format!("*1\r\n$2000\r\n{}", "a".repeat(1500));
    for (bytes, why) in [
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "this is HTTP"),
        ("POST / HTTP/1.1\r\n\r\nSET a b NX\r\n", "this is HTTP"),
        ("\u{16}\u{3}", "a line of words"),
        ("*1\r\n:1\r\n", "expected '$'"),
        (&long, "a command can have at most 1024 bytes (redis-command-bytes-max)"),
    ] {
        let mut client = scene.connect().await;
        client.send(&request("SET a me NX PX 1")).await;
        client.read().await;
        client.send(bytes.as_bytes()).await;
        let answer = client.read().await;
        assert!(answer.starts_with("-ERR Protocol error") && answer.contains(why), "{answer}");
        assert_eq!(client.read().await, "end");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_client_may_stay_unless_a_setting_says_otherwise() {
    let idle = Duration::from_millis(20);
    for (idle_timeout, stays) in [(None, true), (Some(idle), false)] {
        let scene = Scene::with(settings(None), |settings| {
            settings.dialect.redis.idle_timeout = idle_timeout;
            // The HTTP idle timeout does not apply to Redis connections, but it determines how soon the server checks
            // them.
            settings.http.idle_timeout = idle;
            // A client that has sent a command is idle from then on. The deadline for its first command no longer
            // applies.
            let header_timeout = if stays { Duration::from_secs(3) } else { 2 * PATIENCE };
            settings.http.header_timeout = header_timeout;
        })
        .await;
        let mut client = scene.connect().await;
        client.check("PING => PONG").await;
        if stays {
            tokio::time::sleep(Duration::from_millis(6500)).await;
            client.check("PING => PONG").await;
        } else {
            assert_eq!(client.read().await, "end");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_place_only_what_cannot_wait_is_answered() {
    let scene = Scene::with(settings(None), |settings| {
        settings.http.connections_per_peer_max = 1;
        settings.http.connections_per_peer_exempt = [].into();
        settings.http.restricted_timeout = PATIENCE;
    })
    .await;
    let mut first = scene.connect().await;
    first.check("SET job me NX PX 60000 => OK").await;
    let mut second = scene.connect().await;
    second
        .check(&format!(
            "PING => PONG
             SET other me NX PX 1 => -ERR max number of clients reached...
             EVALSHA {EXPIRE} 1 job me 5000 => 1
             EVALSHA {DELETE} 1 job me => 1"
        ))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_listener_can_be_encrypted() {
    let (folder, ca) = (folder(), Ca::new("servers"));
    let scene = Scene::with(settings(None), |settings| {
        settings.dialect.redis.tls = true;
        settings.tls = Some(ca.server().write(folder.path(), "server"));
    })
    .await;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let plain = scene.connect().await.stream;
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, plain).await.unwrap();
    let mut client = Client { stream };
    client.check("SET job me NX PX 60000 => OK\nGET job => \"me\"\nQUIT => OK").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_listener_is_off_by_default() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    for (listen, is_spoken, listens) in
        [(Some(any), true, true), (None, true, false), (Some(any), false, false)]
    {
        let mut settings = settings(None);
        settings.dialect.redis.listen = listen;
        settings.dialects.retain(|dialect| is_spoken || *dialect != Dialect::Redis);
        let local = leasehold_testkit::Local::start(settings).await;
        assert_eq!(local.server.listening(Dialect::Redis).is_some(), listens);
        local.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_hangs_up() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await;
    client.check("PING => PONG").await;
    tokio::time::timeout(PATIENCE, scene.local.stop()).await.expect("a quick end");
    assert_eq!(client.read().await, "end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_in_a_transaction_is_not_done() {
    let scene = Scene::new().await;
    let mut client = scene.connect().await;
    // redis-py sends a pipeline as a transaction by default.
    let all = ["MULTI", "SET mu1 v NX", "SET mu2 v NX PX 60000", "EXEC", "EXISTS mu1 mu2"];
    client.send(&all.map(request).concat()).await;
    let aborted = "-EXECABORT Transaction discarded";
    for start in
        ["-ERR MULTI is not supported", "-ERR not executed", "-ERR not executed", aborted, "0"]
    {
        let answer = client.read().await;
        assert!(answer.starts_with(start), "{start}: {answer}");
    }
    client
        .check(
            "MULTI => -ERR MULTI is not supported: ...
             SET a v NX => -ERR not executed: the command came after MULTI...
             DISCARD => OK
             SET a v NX => OK
             EXEC => -ERR EXEC without MULTI
             DISCARD => -ERR DISCARD without MULTI
             MULTI => -ERR MULTI is not supported: ...
             QUIT => OK",
        )
        .await;
    assert_eq!(client.read().await, "end");
}
