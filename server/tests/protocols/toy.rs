//! Runs a whole server with the toy dialect.

use std::net::SocketAddr;
use std::time::Duration;

use leasehold_core::RetryHint;
use leasehold_engine as engine;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use leasehold_server::dialect::{self, Dialect};
use leasehold_server::http;
use leasehold_server::serve::{Server, Settings};

fn settings(dialects: Vec<Dialect>) -> Settings {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut dialect = dialect::Options::default();
    dialect.toy.greeting = "hello".into();
    dialect.toy.listen = Some(any);
    Settings {
        dialects,
        dialect,
        listen: vec![http::Listen::Http(any)],
        metrics_listen: None,
        tls: None,
        data: None,
        files: None,
        cluster: None,
        backup: None,
        space: leasehold_store::sqlite::Space::unwatched(),
        history: leasehold_store::history::Bounds::default(),
        fold_interval: Duration::from_secs(60),
        engine: engine::Options::default(),
        http: http::Options { hosts: ["x".to_owned()].into(), ..http::Options::default() },
        retry: RetryHint::default(),
        webhook: None,
        auth_file: None,
        auth: Default::default(),
        audit: None,
        traces: None,
        shutdown_timeout: Duration::from_secs(10),
    }
}

async fn send(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(text.as_bytes()).await.expect("it is there");
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    let read = tokio::time::timeout(Duration::from_secs(180), read).await;
    read.expect("in time").expect("text");
    answer
}

fn request(method: &str) -> String {
    format!("{method} /toy HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_and_a_line_are_all_a_dialect_takes() {
    let toy: Dialect = "toy".parse().expect("its name is known");
    assert_eq!((toy, toy.number()), (Dialect::Toy, leasehold_core::Dialect(255)));
    let server = Server::start(settings(vec![toy, Dialect::Files])).await.expect("a start");
    let address = server.address().expect("it listens");
    for method in ["GET", "GREET"] {
        let answer = send(address, &request(method)).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("hello"), "{answer}");
    }
    let listening = server.listening(toy).expect("it listens on its own");
    assert_eq!(send(listening, "ann\n").await, "hello, ann\n");
    let contract = "GET /openapi.json HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert!(send(address, contract).await.contains("\"/toy\""), "it has a chapter");
    server.stop().await.expect("a good end");
    // The dialect's word is never the name of a file, whether the dialect is on or off.
    let server = Server::start(settings(vec![Dialect::Files])).await.expect("a start");
    let address = server.address().expect("it listens");
    assert!(send(address, &request("GET")).await.starts_with("HTTP/1.1 404 "));
    assert!(server.listening(toy).is_none());
    server.stop().await.expect("a good end");
}
