//! A client host that vanishes without closing its connections. Its waiters must leave their queues.
//!
//! The server and its clients run in separate network namespaces, connected by a link that is set down.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they measured"
)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use leasehold_testkit::{Value, folder, json};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");
const PATIENCE: Duration = Duration::from_secs(180);
const SERVER: &str = "10.77.0.1";
/// How long a host can be silent in this test. The server detects the loss some probes later.
const KEEPALIVE: Duration = Duration::from_secs(3);

/// Creates two namespaces and the link between them. Prints a line when they are ready, and ends with its input.
const NETWORK: &str = r#"
set -e
ip link set lo up
unshare --net sleep infinity &
there=$!
until [ "$(readlink /proc/$there/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
trap "kill $there" EXIT
ip link add here type veth peer name there
ip link set there netns $there
ip address add 10.77.0.1/24 dev here
ip link set here up
nsenter --net --target $there ip address add 10.77.0.2/24 dev there
nsenter --net --target $there ip link set there up
echo $$ $there
read -r _ || true
"#;

/// A process that is ended when dropped, with everything it started.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Network {
    shell: Child,
    here: String,
    there: String,
}

impl Network {
    fn new() -> Self {
        let mut shell = Command::new("unshare")
            .args(["--map-root-user", "--net", "bash", "-c", NETWORK])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare");
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (here, there) = line.trim().split_once(' ').expect("a network");
        Self { here: here.into(), there: there.into(), shell }
    }

    /// Returns a command that runs in one of the namespaces.
    fn command(&self, namespace: &str, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--user", "--preserve-credentials", "--net", "--target", namespace]);
        command.arg(program).args(arguments).stdin(Stdio::null());
        command
    }

    fn json(&self, url: &str, arguments: &[&str]) -> Value {
        let mut command = self.command(&self.here, BINARY, arguments);
        let output = command.args(["--json", "--url", url]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The end of its input ends the shell, and the trap of the shell ends the other namespace.
        if let Some(mut input) = self.shell.stdin.take() {
            let _ = input.write_all(b"\n");
        }
        let _ = self.shell.wait();
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_waiters_of_a_host_that_vanishes_leave_their_queues() {
    let network = Network::new();
    let folder = folder();
    let port_file = folder.path().join("port");
    let keepalive = format!("--keepalive-timeout={}s", KEEPALIVE.as_secs());
    let port_flag = format!("--port-file={}", port_file.display());
    let open = "--insecure-no-auth";
    let flags = ["serve", "--listen=0.0.0.0:0", open, "--ephemeral", &keepalive, &port_flag];
    let mut server = network.command(&network.here, BINARY, &flags);
    let _server = Ending(server.stderr(Stdio::null()).spawn().unwrap());
    until("the server listens", || port_file.exists());
    let port = std::fs::read_to_string(&port_file).unwrap().trim().to_owned();
    let url = format!("http://127.0.0.1:{port}");
    let held = network.json(&url, &["acquire", "db", "--owner", "holder", "--ttl", "10m"]);
    assert_eq!(held["acquired"], true, "{held}");
    let body = json!({"owner_id": "gone", "ttl_ms": 600_000, "wait_ms": 600_000}).to_string();
    let address = format!("http://{SERVER}:{port}/v1/locks/db/acquire");
    let _waiters: Vec<_> = ["--http1.1", "--http2-prior-knowledge"]
        .into_iter()
        .map(|version| {
            let kind = "Content-Type: application/json";
            let arguments = [
                version,
                "--silent",
                "--no-keepalive",
                "--header",
                kind,
                "--data",
                &body,
                &address,
            ];
            let mut curl = network.command(&network.there, "curl", &arguments);
            Ending(curl.stdout(Stdio::null()).spawn().unwrap())
        })
        .collect();
    let n_waiting =
        || network.json(&url, &["status", "db"])["queue"].as_array().map_or(0, Vec::len);
    until("two wait", || n_waiting() == 2);
    let mut cut = network.command(&network.there, "ip", &["link", "set", "there", "down"]);
    assert!(cut.status().unwrap().success());
    let began = Instant::now();
    until("the queue is empty", || n_waiting() == 0);
    let took = began.elapsed();
    println!("a host that vanished was noticed after {took:?}");
    assert!(took < 20 * KEEPALIVE, "{took:?}");
}
