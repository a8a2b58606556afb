//! Tests that slow and silent connections do not affect other clients.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print their seeds"
)]

use std::time::Duration;

use leasehold_testkit::{Client, Local, json, settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Reads until the other side closes.
async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_silent_and_slow_connections_do_not_keep_others_out() {
    let mut settings = settings(None);
    settings.http.header_timeout = Duration::from_secs(60);
    let local = Local::start(settings).await;
    let mut idlers = Vec::new();
    for n in 0..1000 {
        let mut stream = TcpStream::connect(local.address).await.expect("accepted");
        match n % 3 {
            0 => {}
            1 => stream
                .write_all(b"POST /v1/locks/db/acquire HTTP/1.1\r\nHost: x\r\n")
                .await
                .unwrap(),
            _ => {
                let head =
                    "POST /v1/locks/db/acquire HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{";
                stream.write_all(head.as_bytes()).await.unwrap();
            }
        }
        idlers.push(stream);
    }
    for n in 0..100 {
        let held = local.client.acquire(&format!("lock-{n}"), "a", 60_000, json!({})).await;
        assert_eq!(held.status, 200);
    }
    assert_eq!(local.client.get("/readyz").await.status, 200);
    drop(idlers);
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let mut settings = settings(None);
    settings.http.header_timeout = Duration::from_millis(50);
    let local = Local::start(settings).await;
    let mut silent = TcpStream::connect(local.address).await.expect("accepted");
    assert_eq!(read_to_end(&mut silent).await, "");
    // Sending a head byte by byte does not keep the connection open either.
    let mut slow = TcpStream::connect(local.address).await.expect("accepted");
    let mut n_written = 0;
    while slow.write_all(b"G").await.is_ok() && n_written < 1000 {
        n_written += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(n_written < 1000, "it was never closed");
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed_after_a_while_but_a_wait_is_not_idle() {
    let mut settings = settings(None);
    settings.http.idle_timeout = Duration::from_millis(100);
    let local = Local::start(settings).await;
    let held = local.client.acquire("db", "a", 60_000, json!({})).await;
    let mut stream = TcpStream::connect(local.address).await.expect("accepted");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "answered, then closed: {answer}");
    let waiting = Client::new(local.address);
    let waiter = tokio::spawn(async move {
        waiting.acquire("db", "b", 60_000, json!({"wait_ms": 60_000})).await
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    // The client's earlier connection has been idle too long and is being closed.
    let client = Client::new(local.address);
    assert_eq!(client.release(&held, json!({})).await.status, 200);
    assert_eq!(waiter.await.expect("no panic").status, 200, "it waited longer than it may be idle");
}

#[tokio::test]
async fn a_body_that_never_ends_is_given_up() {
    let mut settings = settings(None);
    settings.http.body_timeout = Duration::from_millis(50);
    let local = Local::start(settings).await;
    let mut stream = TcpStream::connect(local.address).await.expect("accepted");
    let head = "POST /v1/locks/db/acquire HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert_eq!(local.client.get("/v1/locks/db").await.get("held"), false);
}

#[tokio::test]
async fn http2_works_too() {
    let local = Local::ephemeral().await;
    let mut stream = TcpStream::connect(local.address).await.expect("accepted");
    // The client preface and empty settings. The server answers with its own settings frame.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).await.expect("a frame");
    assert_eq!(frame[3], 4, "a settings frame");
}

#[tokio::test]
async fn a_port_is_taken_only_by_the_server_that_has_the_data() {
    let folder = leasehold_testkit::folder();
    let first = Local::in_folder(folder.path()).await;
    let mut second = settings(Some(folder.path()));
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    second.listen = vec![leasehold_server::http::Listen::Http(port.local_addr().unwrap())];
    // Both the data directory and the port are in use. The server checks the data directory first.
    let refused = leasehold_server::serve::Server::start(second).await;
    let Err(why) = refused.map(drop) else { panic!("two servers, one folder") };
    assert!(why.to_string().contains("is in use by"), "{why}");
    assert_eq!(first.client.get("/readyz").await.status, 200);
}
