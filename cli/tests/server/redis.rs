//! The listener for Redis clients, with a real server process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use leasehold_testkit::{Process, ReservedPort, folder};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");

/// Returns the errors that `check-config` prints.
fn checked(flags: &[&str]) -> String {
    let output = std::process::Command::new(BINARY).arg("check-config").args(flags).output();
    String::from_utf8_lossy(&output.expect("the binary").stderr).into_owned()
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for (flags, why) in [
        (&["--redis-tls"][..], "--redis-tls needs --redis-listen"),
        (&["--redis-tls", "--redis-listen=127.0.0.1:0"], "--redis-tls needs a certificate"),
        (&["--redis-listen=0.0.0.0:0"], "--redis-listen http://0.0.0.0:0 accepts remote"),
        (&["--redis-namespace="], "--redis-namespace: is empty or too long"),
        (&["--redis-databases=0"], "--redis-databases"),
        (&["--redis-command-bytes-max=5"], "must be at least 1024"),
        (&["--redis-pipeline-max=2000", "--pending-max=1000"], "is more than --pending-max, 1000"),
        (&["--redis-listen=nowhere"], "--redis-listen"),
    ] {
        let said = checked(flags);
        assert!(said.contains(why), "{flags:?}: {said}");
    }
    assert_eq!(checked(&["--redis-listen=127.0.0.1:6379", "--redis-idle-timeout=5m"]), "");
}

fn ask(address: SocketAddr, request: &str, answer: &str) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(180))).expect("a socket");
    stream.write_all(request.as_bytes()).expect("a connection");
    let mut said = vec![0; answer.len()];
    stream.read_exact(&mut said).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&said), answer);
}

#[test]
fn a_lock_that_was_answered_survives_a_kill() {
    let (data, port) = (folder(), ReservedPort::any());
    let address = port.address;
    let flag = format!("--redis-listen={address}");
    let set =
        "*6\r\n$3\r\nSET\r\n$3\r\njob\r\n$2\r\nme\r\n$2\r\nNX\r\n$2\r\nPX\r\n$6\r\n600000\r\n";
    let process = Process::start(BINARY, &data.path().join("data"), &[&flag]);
    ask(address, set, "+OK\r\n");
    process.kill();
    let process = Process::start(BINARY, &data.path().join("data"), &[&flag]);
    ask(address, set, "$-1\r\n");
    assert!(process.terminate().success());
}
