//! Tests of TLS: versions, protocols, certificates and their renewal.

use std::sync::Arc;

use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold_server::http::Listen;
use leasehold_server::serve::Server;
use leasehold_testkit::{Ca, settings};
use rustls::{HandshakeKind, ProtocolVersion};

use crate::transport::{BOTH, HEALTH, World, ask, config, connect, connect_shared, renew, status};

#[tokio::test]
async fn both_versions_of_tls_are_spoken_and_every_listener_leads_to_the_same_locks() {
    let world = World::new().await;
    let held = world.local.client.acquire("db", "one", 60_000, leasehold_testkit::json!({})).await;
    assert_eq!(held.status, 200);
    for (version, number) in [
        (&rustls::version::TLS12, ProtocolVersion::TLSv1_2),
        (&rustls::version::TLS13, ProtocolVersion::TLSv1_3),
    ] {
        let config = config(&world.ca, &[version], None);
        let mut stream = connect(world.https(), config).await.unwrap();
        assert_eq!(stream.get_ref().1.protocol_version(), Some(number));
        assert_eq!(status(&ask(&mut stream, HEALTH).await), 200);
        let answer = ask(&mut stream, &crate::transport::acquire("db", "two", 0)).await;
        assert!(status(&answer) == 409 && answer.contains("\"one\""), "{answer}");
    }
    world.local.stop().await;
}

#[tokio::test]
async fn http2_is_spoken_if_the_client_can() {
    let world = World::new().await;
    for (offered, chosen) in
        [(&["h2", "http/1.1"][..], Some("h2")), (&["http/1.1"], Some("http/1.1")), (&[], None)]
    {
        let mut config = world.config();
        config.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
        let stream = connect(world.https(), config).await.unwrap();
        let spoken = stream.get_ref().1.alpn_protocol().map(|name| str::from_utf8(name).unwrap());
        assert_eq!(spoken, chosen);
        if chosen == Some("h2") {
            let io = TokioIo::new(stream);
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            let request = hyper::Request::get("https://localhost/healthz");
            let request = request.body(http_body_util::Empty::<hyper::body::Bytes>::new()).unwrap();
            assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
        }
    }
    let mut config = world.config();
    config.alpn_protocols = vec![b"spdy/1".to_vec()];
    assert!(connect(world.https(), config).await.is_err(), "nothing in common");
    world.local.stop().await;
}

#[tokio::test]
async fn a_client_that_trusts_another_ca_does_not_connect_and_plain_http_gets_nothing() {
    let world = World::new().await;
    let other = Ca::new("others");
    let refused = connect(world.https(), config(&other, BOTH, None)).await;
    assert!(refused.unwrap_err().to_string().contains("UnknownIssuer"));
    world.until_metric("leasehold_handshakes_failed_total{reason=\"tls\"}", |n| n == 1).await;
    let mut plain = tokio::net::TcpStream::connect(world.https()).await.unwrap();
    let answer = ask(&mut plain, HEALTH).await;
    assert!(!answer.contains("HTTP/1.1"), "{answer}");
    world.local.stop().await;
}

#[tokio::test]
async fn a_renewed_certificate_is_served_and_a_bad_one_leaves_the_old_one() {
    let world = World::new().await;
    let seen = async |world: &World| {
        let stream = world.connect().await;
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    let first = seen(&world).await;
    let mut old = world.connect().await;
    renew(&world.ca.server(), &world.folder);
    world.local.server.reload();
    world.local.until("another certificate", async |_| seen(&world).await != first).await;
    let second = seen(&world).await;
    assert_eq!(status(&ask(&mut old, HEALTH).await), 200, "old connections go on");
    let good = world.ca.server();
    let other = world.ca.server();
    let mixed = leasehold_testkit::Issued { certificate: other.certificate.clone(), key: good.key };
    let empty = leasehold_testkit::Issued { certificate: String::new(), key: String::new() };
    for bad in [mixed, empty] {
        renew(&bad, &world.folder);
        world.until_stale(|age| age > 0).await;
        assert_eq!(seen(&world).await, second);
    }
    renew(&other, &world.folder);
    world.until_stale(|age| age == 0).await;
    assert_ne!(seen(&world).await, second);
    world.local.stop().await;
}

impl World {
    /// Waits until the metric for the age of the certificate files satisfies the condition.
    async fn until_stale(&self, is_so: impl Fn(u64) -> bool) {
        let seen = async |_: &leasehold_testkit::Client| {
            self.local.advance_ms(1000);
            self.local.server.reload();
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            self.metric("leasehold_tls_stale_seconds").await.is_some_and(&is_so)
        };
        self.local.until("the age of the certificate", seen).await;
    }
}

#[tokio::test]
async fn a_session_is_resumed_where_no_certificate_of_clients_is_asked_for() {
    let world = World::new().await;
    let config = Arc::new(world.config());
    for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let mut stream = connect_shared(world.https(), &config).await.unwrap();
        // The session ticket arrives after the handshake.
        assert_eq!(status(&ask(&mut stream, HEALTH).await), 200);
        assert_eq!(stream.get_ref().1.handshake_kind(), Some(kind));
    }
    world.local.stop().await;
}

#[tokio::test]
async fn a_server_without_a_usable_certificate_does_not_start_and_says_why() {
    let folder = leasehold_testkit::folder();
    let ca = Ca::new("servers");
    let files = ca.server().write(folder.path(), "server");
    let try_with = async |files: Option<leasehold_server::http::TlsFiles>| {
        let mut settings = settings(None);
        settings.listen = vec![Listen::Https(([127, 0, 0, 1], 0).into())];
        settings.tls = files;
        match Server::start(settings).await {
            Ok(_) => panic!("it started"),
            Err(error) => error.to_string(),
        }
    };
    assert!(try_with(None).await.contains("needs a certificate: --tls-cert-file"));
    let mut missing = files.clone();
    missing.certificate = folder.path().join("nothing.pem");
    assert!(try_with(Some(missing)).await.contains("--tls-cert-file"));
    let mut mixed = files.clone();
    mixed.key = ca.server().write(folder.path(), "other").key;
    let said = try_with(Some(mixed)).await;
    assert!(said.contains("is not the key of the certificate"), "{said}");
    let mut swapped = files.clone();
    std::mem::swap(&mut swapped.certificate, &mut swapped.key);
    let said = try_with(Some(swapped)).await;
    assert!(said.contains("has no certificate in PEM"), "{said}");
}

#[tokio::test]
async fn addresses_in_answers_say_https_where_the_client_came_by_https() {
    let world = World::new().await;
    let body = leasehold_testkit::json!({"resource": "r", "ttl": 30});
    let request = crate::transport::post("/v1/claims/", "", &body);
    let answer = ask(&mut world.connect().await, &request).await;
    assert!(answer.contains("https://localhost/v1/claims/"), "{answer}");
    world.local.stop().await;
}
