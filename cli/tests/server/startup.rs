//! What a server reports about its machine and settings before it starts, and how it copes with low limits.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::process::{Command, Output};

use leasehold_testkit::{Client, Process, folder, json};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LEASEHOLD_")) {
        command.env_remove(name);
    }
    command.args(args).output().expect("the binary")
}

fn check_config(args: &[&str]) -> String {
    let output = run(&[&["check-config"], args].concat());
    let [out, err] =
        [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    format!("{out}{err}")
}

/// Opens as many connections as possible, each of which waits for a lock.
#[tokio::test]
async fn a_server_with_few_open_files_says_so_and_keeps_a_reserve() {
    let folder = folder();
    let few = leasehold_testkit::wrapped(folder.path(), "ulimit -n 220\nexec", BINARY);
    let server = Process::start(&few, &folder.path().join("data"), &["--workers=2"]);
    let held = server.client.acquire("db", "holder", 600_000, json!({})).await;
    assert_eq!(held.status, 200);
    let body = r#"{"owner_id":"w","ttl_ms":60000,"wait_ms":600000}"#;
    let request = format!(
        "POST /v1/locks/db/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut waiters = Vec::new();
    for _ in 0..300 {
        let Ok(mut stream) = std::net::TcpStream::connect(server.address) else { break };
        let _ = std::io::Write::write_all(&mut stream, request.as_bytes());
        waiters.push(stream);
    }
    for _ in 0..3 {
        let client = Client::new(server.address);
        assert_eq!(client.get("/healthz").await.status, 200);
        let client = Client::new(server.address);
        assert_eq!(client.renew(&held, 600_000, json!({})).await.status, 200);
    }
    drop(waiters);
}

#[test]
fn a_server_that_may_open_too_few_files_says_what_to_change() {
    let folder = folder();
    for (n, expected) in [
        (40, "the limit is 40 open files, but a server needs at least"),
        (1024, "accepting at most"),
    ] {
        let few =
            leasehold_testkit::wrapped(folder.path(), &format!("ulimit -n {n}\nexec"), BINARY);
        let mut command = Command::new(few);
        command.args([
            "serve",
            "--ephemeral",
            "--listen=127.0.0.1:0",
            "--workers=2",
            "--port-file",
        ]);
        // The port file cannot be written, so the server ends after it has checked its settings.
        let output = command.arg(folder.path().join("none/port")).output().expect("the binary");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{said}");
        assert!(said.contains("LimitNOFILE"), "{said}");
    }
}

/// Starts a server that other machines could reach, and returns what it reports. The port file cannot be written, so
/// the server ends after it has checked its settings.
fn log_of_a_start(flags: &[String]) -> String {
    let nowhere = ["serve", "--ephemeral", "--listen=0.0.0.0:0", "--port-file=/dev/null/port"];
    let flags: Vec<_> = nowhere.into_iter().chain(flags.iter().map(String::as_str)).collect();
    let output = run(&flags);
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn keys_that_others_can_read_and_credentials_in_the_clear_are_warned_of() {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let set = |name: &str, mode| {
        std::fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
    };
    std::fs::create_dir(path("open")).unwrap();
    std::fs::write(path("open/secret"), "0123456789abcdef0123456789abcdef").unwrap();
    let done = run(&["auth", "init", "--auth-file", &path("auth.toml")]);
    assert!(done.status.success(), "{done:?}");
    let flags = [
        format!("--auth-file={}", path("auth.toml")),
        format!("--webhook-secret-file={}", path("open/secret")),
        "--webhook-url=http://127.0.0.1:1/".into(),
    ];
    let check = |more: &[&str]| {
        let flags: Vec<_> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        check_config(&flags)
    };
    set("open/secret", 0o600);
    assert!(!check(&[]).contains("warning"), "{}", check(&[]));
    set("open/secret", 0o644);
    assert!(check(&[]).contains("open/secret: every user of this machine can read it (mode 644)"));
    set("open/secret", 0o600);
    set("open", 0o777);
    assert!(
        check(&[]).contains("open/secret: other users can replace it, because"),
        "{}",
        check(&[])
    );
    set("open", 0o700);
    let said = check(&["--listen=0.0.0.0:8080", "--redis-listen=0.0.0.0:6379"]);
    for flag in ["--listen http://0.0.0.0:8080", "--redis-listen http://0.0.0.0:6379"] {
        assert!(said.contains(&format!("warning: {flag} is not encrypted")), "{said}");
    }
    assert!(!check(&["--listen=127.0.0.1:8080"]).contains("not encrypted"));
    set("open", 0o777);
    let said = log_of_a_start(&flags);
    assert!(said.contains("open/secret: other users can replace it"), "{said}");
    assert!(said.contains("--listen http://0.0.0.0:0 is not encrypted"), "{said}");
    set("open", 0o700);
    // The listener for other servers has no TLS.
    let secret = format!("--peer-secret-file={}", path("open/secret"));
    let cluster = ["--store=etcd://127.0.0.1:1/a", "--advertise=http://n1.example:8080", &secret];
    let of_peers = |more: &[&str]| check(&[&cluster, more].concat());
    let said = of_peers(&["--peer-listen=0.0.0.0:8081"]);
    assert!(said.contains("warning: --peer-listen 0.0.0.0:8081 is not encrypted"), "{said}");
    let said = of_peers(&["--listen=0.0.0.0:8080"]);
    assert!(said.contains("warning: --peer-listen 0.0.0.0:0 (default) is not encrypted"), "{said}");
    let said = of_peers(&["--peer-listen=127.0.0.1:8081"]);
    assert!(!said.contains("not encrypted"), "{said}");
}
