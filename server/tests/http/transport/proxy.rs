//! Tests of load balancers and the PROXY protocol header.

use std::net::SocketAddr;
use std::time::Duration;

use leasehold_testkit::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::transport::{HEALTH, PATIENCE, World, ask, config, status};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Returns a PROXY header of version 2 with this command, address family and rest.
fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    header.extend([0x20 | command, family]);
    header.extend((rest.len() as u16).to_be_bytes());
    header.extend(rest);
    header
}

fn tcp4(source: [u8; 4]) -> Vec<u8> {
    let mut rest = source.to_vec();
    rest.extend([127, 0, 0, 1, 0x30, 0x39, 0x01, 0xbb]);
    rest
}

async fn world(from: &str) -> World {
    world_with(from, PATIENCE).await
}

async fn world_with(from: &str, handshake_timeout: Duration) -> World {
    World::with(|settings, _| {
        settings.http.proxy_protocol_from =
            [leasehold_server::http::parse_network(from).unwrap()].into();
        settings.http.handshake_timeout = handshake_timeout;
        // The client address decides the principal, so this limit shows which address the server sees.
        settings.engine.limits.principal_leases_max = 1;
        settings.listen.truncate(1);
        settings.listen.push(leasehold_server::http::Listen::Https(([127, 0, 0, 1], 0).into()));
    })
    .await
}

/// Sends a PROXY header and a request. Returns the status, or 0 if there is no response.
async fn begun(address: SocketAddr, header: &[u8], request: &str) -> u16 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(header).await.unwrap();
    let answer = ask(&mut stream, request).await;
    if answer.is_empty() { 0 } else { status(&answer) }
}

#[tokio::test]
async fn a_load_balancer_of_the_list_must_say_whom_it_speaks_for() {
    let world = world("127.0.0.0/8").await;
    // A server may also refuse a header because its rest does not come in time.
    let impatient = world_with("127.0.0.0/8", Duration::from_millis(500)).await;
    let mut six = [0; 36];
    six[15] = 9;
    let long = binary(1, 0x11, &[0; 5000]);
    let mut tlvs = tcp4([192, 0, 2, 1]);
    tlvs.extend([4, 0, 3, 1, 2, 3]);
    for (header, expected) in [
        (&b"PROXY TCP4 192.0.2.1 127.0.0.1 1234 443\r\n"[..], 200),
        (b"PROXY TCP6 2001:db8::1 ::1 1234 443\r\n", 200),
        (b"PROXY UNKNOWN\r\n", 200),
        (&binary(1, 0x11, &tcp4([192, 0, 2, 1])), 200),
        (&binary(1, 0x11, &tlvs), 200),
        (&binary(1, 0x21, &six), 200),
        (&binary(0, 0, &[]), 200),
        (b"", 0),
        (b"PROXY TCP4 nonsense\r\n", 0),
        (b"PROXY TCP4 192.0.2.1 127.0.0.1 1234 443", 0),
        (&[b'P'; 200], 0),
        (&binary(1, 0x12, &tcp4([192, 0, 2, 1])), 0),
        (&binary(1, 0x11, &[1, 2, 3]), 0),
        (&long, 0),
        (b"\r\n\r\nnot the signature", 0),
    ] {
        let local = if expected == 0 { &impatient.local } else { &world.local };
        let seen = begun(local.address, header, HEALTH).await;
        assert_eq!(seen, expected, "{:?}", String::from_utf8_lossy(header));
    }
    world.stop_quietly().await;
    impatient.stop_quietly().await;
}

#[tokio::test]
async fn the_source_in_the_header_is_who_asks_also_before_tls() {
    let world = world("127.0.0.1").await;
    let granted = async |source: u8, lock: &str, is_tls: bool| {
        let header = format!("PROXY TCP4 192.0.2.{source} 127.0.0.1 1234 443\r\n");
        let request = crate::transport::acquire(lock, "any", 0);
        if !is_tls {
            return begun(world.local.address, header.as_bytes(), &request).await;
        }
        let mut stream = TcpStream::connect(world.https()).await.unwrap();
        stream.write_all(header.as_bytes()).await.unwrap();
        let config = std::sync::Arc::new(config(&world.ca, crate::transport::BOTH, None));
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let connector = tokio_rustls::TlsConnector::from(config);
        let mut stream = connector.connect(name, stream).await.unwrap();
        status(&ask(&mut stream, &request).await)
    };
    // Each address can hold one lease.
    assert_eq!(granted(1, "a", false).await, 200);
    assert_ne!(granted(1, "b", false).await, 200);
    assert_eq!(granted(2, "c", true).await, 200);
    assert_ne!(granted(2, "d", true).await, 200);
    world.stop_quietly().await;
}

#[tokio::test]
async fn other_addresses_are_not_trusted() {
    let world = world("10.0.0.0/8").await;
    let header = b"PROXY TCP4 192.0.2.1 127.0.0.1 1234 443\r\n";
    assert_eq!(begun(world.local.address, header, HEALTH).await, 400);
    let header = binary(1, 0x11, &tcp4([192, 0, 2, 1]));
    assert_ne!(begun(world.local.address, &header, HEALTH).await, 200);
    assert_eq!(begun(world.local.address, b"", HEALTH).await, 200);
    let held = world.local.client.acquire("db", "one", 60_000, json!({})).await;
    assert_eq!(held.status, 200);
    world.stop_quietly().await;
}

#[tokio::test]
async fn a_header_that_never_comes_ends_the_connection() {
    let world = world_with("127.0.0.1", Duration::from_millis(500)).await;
    for begun in [&b""[..], b"PROXY TCP4 192", SIGNATURE] {
        let mut stream = TcpStream::connect(world.local.address).await.unwrap();
        stream.write_all(begun).await.unwrap();
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        let _ = ended.expect("it never ended");
        assert!(answer.is_empty());
    }
    world.stop_quietly().await;
}

impl World {
    async fn stop_quietly(self) {
        self.local.stop().await;
    }
}
