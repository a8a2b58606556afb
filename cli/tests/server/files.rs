//! Files through a real server process.

use std::io::{Read, Write};
use std::net::TcpStream;

use leasehold_testkit::{Process, folder, json};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");
const GIB: usize = 1 << 30;
const PIECE: usize = 1 << 20;
/// SHA-256 of a gibibyte of zeros.
const HASH: &str = "49bc20df15e412a64472421e13fe86ff1c5165e18b2afccf160d4dc19fe68a14";

/// Returns the peak memory of the process, in bytes.
fn peak(process: &Process) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id()));
    let status = status.expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1024
}

async fn session(process: &Process) -> String {
    let opened = process.client.post("/auth/session", json!({})).await.expect("an answer");
    opened.text_of("sessionId")
}

#[tokio::test]
async fn a_gibibyte_goes_in_and_out_without_sitting_in_memory() {
    let data = folder();
    let process = Process::start(BINARY, &data.path().join("data"), &[]);
    let session = session(&process).await;
    let before = peak(&process);

    let mut stream = TcpStream::connect(process.address).expect("a connection");
    let head = format!(
        "PUT /big HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {session}\r\ncontent-length: {GIB}\r\n\
         connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let piece = vec![0; PIECE];
    for _ in 0..GIB / PIECE {
        stream.write_all(&piece).expect("sent");
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 201") && answer.contains(HASH), "{answer}");

    let mut stream = TcpStream::connect(process.address).expect("a connection");
    stream
        .write_all(b"GET /big HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .expect("sent");
    let mut n_read = 0;
    let mut piece = vec![0; PIECE];
    loop {
        match stream.read(&mut piece).expect("the content") {
            0 => break,
            n => n_read += n,
        }
    }
    assert!(n_read > GIB, "{n_read}");

    let grown = peak(&process) - before;
    assert!(grown < 32 << 20, "memory grew by {} MiB", grown >> 20);
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_kill() {
    let data = folder();
    let at = data.path().join("data");
    let process = Process::start(BINARY, &at, &[]);
    let editor = session(&process).await;
    let bearer = format!("Bearer {editor}");
    let headers = [("authorization", bearer.as_str())];
    let put = process.client.send_with(hyper::Method::PUT, "/a/b/c", &headers, "durable");
    assert_eq!(put.await.expect("an answer").status, 201);
    process.kill();
    let process = Process::start(BINARY, &at, &[]);
    assert_eq!(process.client.get("/a/b/c").await.text, "durable");
    let put = process.client.send_with(hyper::Method::PUT, "/a/b/c", &headers, "again");
    assert_eq!(put.await.expect("an answer").status, 200);
}

#[tokio::test]
async fn only_a_server_without_remote_clients_lets_all_users_read() {
    let data = folder();
    for (flags, status) in [
        (&["--listen=127.0.0.1:0"][..], 404),
        (&["--listen=127.0.0.1:0", "--files-public=false"][..], 401),
        (&["--listen=0.0.0.0:0", "--insecure-no-auth"][..], 401),
        (&["--listen=0.0.0.0:0", "--insecure-no-auth", "--files-public"][..], 404),
    ] {
        let process = Process::start(BINARY, &data.path().join("data"), flags);
        assert_eq!(process.client.get("/none").await.status, status, "{flags:?}");
        process.kill();
    }
}

/// Returns the errors that `check-config` prints.
fn checked(flags: &[&str]) -> String {
    let output = std::process::Command::new(BINARY).arg("check-config").args(flags).output();
    String::from_utf8_lossy(&output.expect("the binary").stderr).into_owned()
}

#[test]
fn a_lock_or_session_of_files_cannot_last_longer_than_any_may() {
    let refused = checked(&["--files-lock-ttl=2h", "--ttl-max=1h"]);
    assert!(refused.contains("--files-lock-ttl is longer than --ttl-max"), "{refused}");
    let refused = checked(&["--files-session-ttl=2d", "--session-ttl-max=1d"]);
    assert!(refused.contains("--files-session-ttl is longer than --session-ttl-max"), "{refused}");
    let refused = checked(&["--files-namespace="]);
    assert!(refused.contains("--files-namespace"), "{refused}");
    // Default values adapt to the limits.
    let accepted = checked(&["--ttl-max=1s", "--session-ttl-max=1s"]);
    assert!(!accepted.contains("--files"), "{accepted}");
}
