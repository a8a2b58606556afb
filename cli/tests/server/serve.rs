//! The real server process: starting, refusing to start, stopping, and a busy database.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print their seeds"
)]

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use leasehold_testkit::{Client, Method, Process, Signal, folder, json};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");

fn run(args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(BINARY);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LEASEHOLD_")) {
        command.env_remove(name);
    }
    command.args(args).envs(env.iter().copied()).output().expect("the binary")
}

fn check_config(args: &[&str], env: &[(&str, &str)]) -> String {
    let output = run(&[&["check-config"], args].concat(), env);
    let [out, err] =
        [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    format!("{out}{err}")
}

#[tokio::test]
async fn sigterm_answers_those_who_wait_and_exits_with_0() {
    let data = folder();
    let server = Process::start(BINARY, &data.path().join("data"), &[]);
    let held = server.client.acquire("db", "a", 60_000, json!({})).await;
    assert_eq!(held.status, 200);
    let client = Client::new(server.address);
    let waiter = tokio::spawn(async move {
        client.try_acquire("db", "b", 60_000, json!({"wait_ms": 60_000})).await
    });
    while server.client.get("/v1/locks/db").await.get("n_waiting") != 1 {
        tokio::task::yield_now().await;
    }
    assert!(server.terminate().success());
    let told = waiter.await.expect("no panic").expect("an answer");
    assert_eq!((told.status, told.text_of("code").as_str()), (503, "SHUTTING_DOWN"));
    let report = leasehold_store::sqlite::verify(&data.path().join("data")).expect("sound");
    assert_eq!((report.n_records, report.counts.n_active), (0, 1), "all of it is folded");
}

#[test]
fn a_setting_with_which_nothing_would_work_is_refused() {
    let settings = "--batch-max --pending-max --name-bytes-max --group-max --header-timeout --journal-bytes-max \
                    --names-total-bytes-max --queues-total-bytes-max --body-bytes-max --principal-leases-max \
                    --downloads-max --principal-downloads-max --tree-operations-max \
                    --principal-tree-operations-max";
    for setting in settings.split_whitespace() {
        let said = check_config(&[setting, "0"], &[]);
        assert!(said.contains(&format!("{setting}: must be at least 1, got 0")), "{said}");
    }
    for interval in ["0", "1ns"] {
        let said = check_config(&["--fold-interval", interval], &[]);
        assert!(said.contains("--fold-interval: ") && said.contains("at least 1ms"), "{said}");
    }
    let said = check_config(&["--ttl-max", "0s"], &[]);
    assert!(said.contains("--ttl-max: must be at least 1, got 0"), "{said}");
    for setting in ["--ttl-max", "--session-ttl-max", "--grace-max", "--wait-max"] {
        let said = check_config(&[setting, "1000y"], &[]);
        assert!(
            said.contains(&format!("{setting}: must be at most 10 years (10y), got 1000years")),
            "{said}"
        );
    }
    let said = check_config(&["--log", "infoo"], &[]);
    assert!(said.contains("--log: unknown level \"infoo\"; allowed: error, warn,"), "{said}");
    let said = check_config(&["--retry-min", "5s", "--retry-max", "1s"], &[]);
    assert!(said.contains("--retry-min is longer than --retry-max"), "{said}");
}

#[tokio::test]
async fn a_server_continues_when_its_log_pipe_is_closed() {
    let folder = folder();
    let port_file = folder.path().join("port");
    let mut command = Command::new(BINARY);
    command.args(["serve", "--listen=127.0.0.1:0", "--log=debug", "--free-space-min=0", "--data"]);
    command.arg(folder.path().join("data")).arg("--port-file").arg(&port_file);
    let mut server = command.stderr(std::process::Stdio::piped()).spawn().expect("the binary");
    let began = Instant::now();
    let port = loop {
        let port =
            std::fs::read_to_string(&port_file).ok().and_then(|port| port.trim().parse().ok());
        if let Some(port) = port {
            break port;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it never listened");
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    drop(server.stderr.take());
    let client = Client::new(std::net::SocketAddr::from(([127, 0, 0, 1], port)));
    assert_eq!(client.acquire("db", "a", 60_000, json!({})).await.status, 200);
    assert_eq!(
        client.post("/v1/locks/db/revoke", json!({"reason": "r"})).await.unwrap().status,
        200
    );
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, Signal::TERM).expect("it is there");
    assert!(server.wait().expect("its end").success());
}

#[tokio::test]
async fn a_second_server_on_one_folder_refuses_to_start() {
    let data = folder();
    let data = data.path().join("data");
    let first = Process::start(BINARY, &data, &[]);
    let Err(said) = Process::try_start(BINARY, &data, &[]) else {
        panic!("two servers, one folder")
    };
    assert!(said.contains(&format!("is in use by process {}", first.id())), "{said}");
    assert_eq!(first.client.get("/readyz").await.status, 200, "the first one does not care");
}

/// `--skip-if-busy` skips a job only if another owner holds the lock, not if the server cannot tell.
#[test]
fn a_server_that_cannot_say_who_holds_a_lock_is_not_taken_for_one_that_says_it_is_held() {
    let data = folder();
    let data = data.path().join("data");
    let server = Process::start(BINARY, &data, &[]);
    let other = rusqlite::Connection::open(data.join("journal.db")).expect("a file");
    other.execute_batch("BEGIN IMMEDIATE").expect("held");
    for flags in [&["--skip-if-busy"][..], &["-n"], &["-n", "-E", "9"]] {
        let mut run = std::process::Command::new(BINARY);
        run.arg("run").args(flags).args(["--url", &format!("http://{}", server.address)]);
        let done = run.args(["job", "true"]).output().expect("it runs");
        assert_eq!(done.status.code(), Some(68), "{flags:?}: {done:?}");
    }
}

#[tokio::test]
async fn a_database_held_by_another_process_is_busy_retry_and_nothing_is_done() {
    let data = folder();
    let data = data.path().join("data");
    let server = Process::start(BINARY, &data, &[]);
    let client = &server.client;
    let held = client.acquire("mine", "a", 60_000, json!({})).await;
    let other = rusqlite::Connection::open(data.join("journal.db")).expect("a file");
    other.execute_batch("BEGIN IMMEDIATE").expect("held");
    let busy = client.acquire("db", "a", 60_000, json!({})).await;
    assert_eq!(busy.status, 409);
    assert_eq!(busy.text_of("reason"), "BUSY_RETRY");
    assert_eq!(busy.number("recommended_retry_ms"), 50);
    let renewed = client.renew(&held, 60_000, json!({})).await;
    assert_eq!((renewed.status, renewed.text_of("code").as_str()), (503, "BUSY"));
    assert_eq!(renewed.get("may_have_taken_effect"), false);
    assert_eq!(client.get("/readyz").await.status, 503);
    assert_eq!(client.get("/livez").await.status, 200);
    other.execute_batch("ROLLBACK").expect("let go");
    let state = client.get("/v1/locks/db").await;
    assert_eq!((state.get("held"), state.get("last_token")), (&json!(false), &json!(0)));
    let metrics = client.get("/metrics").await.text;
    assert!(metrics.contains("lock_db_busy_total{op=\"acquire\"} 1"), "{metrics}");
    assert!(metrics.contains("lock_db_busy_total{op=\"renew\"} 1"), "{metrics}");
}

/// Returns the names of the threads of the server.
fn threads(server: &Process) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.id())).unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
    };
    tasks.map(name).collect()
}

#[test]
fn there_are_as_many_workers_as_it_was_told_or_one_for_each_processor() {
    let data = folder();
    let n_processors = std::thread::available_parallelism().unwrap().get();
    for (flag, expected) in [("--workers=3", 3), ("--workers=0", n_processors)] {
        let server = Process::start(BINARY, data.path(), &["--ephemeral", flag]);
        let n = || threads(&server).iter().filter(|name| name.starts_with("worker-")).count();
        // A thread sets its own name, possibly after the server has announced its address.
        let began = Instant::now();
        while n() < expected && began.elapsed() < Duration::from_secs(60) {
            std::thread::yield_now();
        }
        assert_eq!(n(), expected, "{flag}");
    }
}

#[tokio::test]
async fn an_ephemeral_server_leaves_no_data() {
    let data = folder();
    let data = data.path().join("data");
    let server = Process::start(BINARY, &data, &["--ephemeral"]);
    assert_eq!(server.client.acquire("db", "a", 60_000, json!({})).await.status, 200);
    assert!(server.terminate().success());
    assert!(!data.exists());
}

#[tokio::test]
async fn a_dialect_that_is_not_on_is_not_there() {
    let data = folder();
    let said = check_config(&["--dialects", "nonsense"], &[]);
    assert!(said.contains("there is no dialect"), "{said}");
    let server = Process::start(BINARY, &data.path().join("data"), &["--dialects=locks,locks"]);
    assert_eq!(server.client.get("/v1/locks/db").await.status, 200);
    assert_eq!(server.client.get("/lock").await.status, 404);
    assert_eq!(server.client.get("/locks/db?tenant_id=t").await.status, 404);
}

#[tokio::test]
async fn every_dialect_is_on_and_the_sticky_lock_has_its_settings() {
    let data = folder();
    let flags = ["--grace=1h", "--lock-namespace=laptops"];
    let server = Process::start(BINARY, &data.path().join("data"), &flags);
    let ask = async |query: &str| {
        let path = format!("/lock?{query}");
        server.client.post(&path, json!(null)).await.expect("an answer")
    };
    assert_eq!(ask("client=a&ttl=1ns").await.status, 200);
    let refused = ask("client=b").await;
    assert_eq!((refused.status, refused.text_of("message")), (409, "grace period active".into()));
    let seen = server.client.get("/v1/namespaces/laptops/locks/default").await;
    assert_eq!(seen.text_of("grace_owner_id"), "a");
}

#[test]
fn every_dialect_is_on_by_default_and_a_ttl_has_bounds_that_make_sense() {
    let said = check_config(&[], &[]);
    assert!(said.contains("\"locks\"") && said.contains("\"leases\""), "{said}");
    assert!(said.contains("leases-ttl-seconds-min = 10  # default\n"), "{said}");
    assert!(said.contains("leases-ttl-seconds-max = 300  # default\n"), "{said}");
    let said = check_config(&[], &[("LEASEHOLD_LEASES_TTL_SECONDS_MIN", "1")]);
    let expected = "leases-ttl-seconds-min = 1  # LEASEHOLD_LEASES_TTL_SECONDS_MIN\n";
    assert!(said.contains(expected), "{said}");
    assert!(check_config(&["--leases-ttl-seconds-min=0"], &[]).contains("leases-ttl-seconds-min"));
    let said = check_config(&["--leases-ttl-seconds-max=9"], &[]);
    assert!(said.contains("is more than --leases-ttl-seconds-max"), "{said}");
}

#[tokio::test]
async fn trusted_proxies_and_the_tenants_prefix_are_settings() {
    let data = folder();
    let flags = ["--trusted-proxies=10.0.0.0/8,127.0.0.1", "--leases-namespace-prefix=tenant/"];
    let server = Process::start(BINARY, &data.path().join("data"), &flags);
    let claim = json!({"resource": "r", "timeout": 1}).to_string();
    let headers = [("content-type", "application/json"), ("x-forwarded-host", "locks.example")];
    let answer = server.client.send_with(Method::POST, "/v1/claims/", &headers, claim).await;
    let url = answer.expect("an answer").text_of("url");
    assert_eq!(url, "http://locks.example/v1/claims/1/");
    let lease = json!({
        "tenant_id": "acme", "request_id": "r", "lock_key": "db", "owner_id": "a", "ttl_seconds": 30,
    });
    assert_eq!(server.client.post("/leases/acquire", lease).await.expect("an answer").status, 201);
    let native = server.client.get("/v1/namespaces/tenant%2Facme/locks/db").await;
    assert_eq!(native.get("held"), true);
    for (flag, why) in [
        ("--trusted-proxies=proxy.example", "neither an address nor a network"),
        ("--trusted-proxies=10.0.0.0/33", "neither an address nor a network"),
        (&format!("--leases-namespace-prefix={}", "x".repeat(128)), "no tenant name fits"),
    ] {
        let said = check_config(&[flag], &[]);
        assert!(said.contains(why), "{flag}: {said}");
    }
}

#[test]
fn flags_beat_the_environment_which_beats_the_file_which_beats_the_default() {
    let folder = folder();
    let file = folder.path().join("leasehold.toml");
    std::fs::write(&file, "listen = \"127.0.0.1:1111\"\nttl-max = \"1h\"\nephemeral = true\n")
        .unwrap();
    let config = ["--config", file.to_str().unwrap()];
    let listens = |args: &[&str], env: &[(&str, &str)], address: &str, source: &str| {
        let said = check_config(args, env);
        assert!(said.contains(&format!("listen = [\"{address}\"]  # {source}\n")), "{said}");
    };
    let in_file = format!("{}:1", config[1]);
    let variable = ("LEASEHOLD_LISTEN", "127.0.0.1:2222");
    listens(&[], &[], "127.0.0.1:8080", "default");
    listens(&config, &[], "127.0.0.1:1111", &in_file);
    listens(&config, &[variable], "127.0.0.1:2222", "LEASEHOLD_LISTEN");
    let flags = [&config[..], &["--listen", "127.0.0.1:3333"]].concat();
    listens(&flags, &[variable], "127.0.0.1:3333", "--listen");
    listens(&flags, &[], "127.0.0.1:3333", "--listen");
    let several = [&flags[..], &["--listen=unix:/run/a.sock,[::1]:1"]].concat();
    listens(&several, &[], "127.0.0.1:3333\", \"unix:/run/a.sock\", \"[::1]:1", "--listen");
    listens(&[], &[("LEASEHOLD_CONFIG", config[1])], "127.0.0.1:1111", &in_file);
    let theirs = ("LOCKSERVER_ADDR", ":4444");
    listens(&["--insecure-no-auth"], &[theirs], ":4444", "LOCKSERVER_ADDR");
    listens(&[], &[theirs, variable], "127.0.0.1:2222", "LEASEHOLD_LISTEN");
    let said = check_config(&config, &[("LOCKSERVER_DB", "/somewhere/locks")]);
    assert!(said.contains("data = \"/somewhere/locks\"  # LOCKSERVER_DB\n"), "{said}");
    assert!(said.contains(&format!("ephemeral = true  # {}:3\n", config[1])), "{said}");
    assert!(said.contains(&format!("ttl-max = \"1h\"  # {}:2\n", config[1])), "{said}");
    assert!(said.contains("# port-file is not set\n"), "{said}");
    // The output is a config file with the same settings.
    let again = folder.path().join("again.toml");
    std::fs::write(&again, &said).unwrap();
    let repeated = check_config(&["--config", again.to_str().unwrap()], &[]);
    let values = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split("  # ").next().unwrap().to_owned()).collect()
    };
    assert_eq!(values(&said), values(&repeated));
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    let folder = folder();
    let file = folder.path().join("leasehold.toml");
    let with_file = |text: &str| {
        std::fs::write(&file, text).unwrap();
        check_config(&["--config", file.to_str().unwrap()], &[])
    };
    for (text, line, why) in [
        ("# first\nlisen = \"x\"", 2, "there is no setting \"lisen\""),
        ("listen = \"nowhere\"", 1, "--listen"),
        ("workers = 1\n\nlisten = ", 3, "string"),
        ("workers = 1\nttl-max = \"soon\"", 2, "--ttl-max"),
        ("workers = 2000", 1, "--workers"),
        ("[listen]\nport = 1", 1, "must be a string"),
        ("workers = 1\ngrace-max = \"1s\"\ngrace = \"2s\"", 3, "--grace"),
        ("keepalive-timeout = \"2s\"", 1, "must be from 3s to 24h"),
    ] {
        let said = with_file(text);
        assert!(said.contains(&format!("leasehold.toml:{line}")), "{text}: {said}");
        assert!(said.contains(why), "{text}: {said}");
    }
    assert!(check_config(&["--config", "/nowhere.toml"], &[]).contains("/nowhere.toml"));
    assert!(check_config(&["--queue-max=-1"], &[]).contains("--queue-max"));
    assert!(check_config(&["--workers=1025"], &[]).contains("--workers"));
    assert!(check_config(&["--grace=61m"], &[]).contains("--grace: 1h 1m is longer"));
    assert!(check_config(&["--lock-namespace="], &[]).contains("--lock-namespace: is empty"));
    let said = check_config(&[], &[("LEASEHOLD_TTL_MAX", "x")]);
    assert!(said.contains("LEASEHOLD_TTL_MAX: invalid value 'x'"), "{said}");
    assert!(!said.contains("--ttl-max"), "the flag was not given: {said}");
    assert!(
        check_config(&["--ttl-max=1h"], &[("LEASEHOLD_TTL_MAX", "x")]).contains("ttl-max = \"1h\"")
    );
    let said = check_config(&[], &[("LEASEHOLD_GRACE", "61m")]);
    assert!(
        said.contains("is longer than --grace-max") && said.contains("(LEASEHOLD_GRACE)"),
        "{said}"
    );
}

#[tokio::test]
async fn every_limit_is_a_setting_that_is_kept() {
    let data = folder();
    let flags = ["--ttl-max=10m", "--name-bytes-max=4", "--queue-max=0", "--body-bytes-max=100"];
    let server = Process::start(BINARY, &data.path().join("data"), &flags);
    let client = &server.client;
    assert_eq!(client.acquire("db", "a", 600_001, json!({})).await.status, 400);
    assert_eq!(client.acquire("long-name", "a", 600_000, json!({})).await.status, 400);
    assert_eq!(
        client.acquire("db", "a", 600_000, json!({"metadata": "x".repeat(100)})).await.status,
        413
    );
    assert_eq!(client.acquire("db", "a", 600_000, json!({})).await.status, 200);
    let full = client.acquire("db", "b", 600_000, json!({"wait_ms": 10})).await;
    assert_eq!(full.text_of("reason"), "QUEUE_FULL");
}

/// Opens a connection with a request that never ends, so that the shutdown takes as long as it is allowed to.
fn stuck(server: &Process) -> std::net::TcpStream {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(server.address).expect("accepted");
    let head = "POST /v1/locks/db/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Expect: 100-continue\r\nContent-Length: 100\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("sent");
    // The server has started to read the body.
    let mut goes_on = [0; 12];
    stream.read_exact(&mut goes_on).expect("an interim answer");
    assert_eq!(&goes_on, b"HTTP/1.1 100");
    stream
}

#[tokio::test]
async fn a_second_sigterm_ends_the_wait_at_once() {
    let data = folder();
    let data = data.path().join("data");
    let flags = ["--shutdown-timeout=10m", "--body-timeout=10m"];
    let mut server = Process::start(BINARY, &data, &flags);
    let held = server.client.acquire("held", "a", 60_000, json!({})).await;
    assert_eq!(held.status, 200);
    let _stuck = stuck(&server);
    server.signal(Signal::TERM);
    // A server that is stopping accepts no more connections.
    while std::net::TcpStream::connect(server.address).is_ok() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(128 + 15));
    let server = Process::start(BINARY, &data, &[]);
    assert_eq!(server.client.get("/v1/locks/held").await.get("held"), true, "nothing is lost");
}

/// As under systemd, with a watchdog time of 200 ms.
#[test]
fn the_service_manager_is_notified_when_the_server_is_ready_alive_and_stopping() {
    let folder = folder();
    let socket = folder.path().join("notify.sock");
    let heard = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    heard.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let next = || {
        let mut bytes = [0; 256];
        let n = heard.recv(&mut bytes).expect("a notification");
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    };
    let mut command = Command::new(BINARY);
    command.args(["serve", "--listen=127.0.0.1:0", "--ephemeral", "--log=error"]);
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "200000");
    let began = Instant::now();
    let mut server = command.spawn().expect("the binary");
    assert_eq!(next(), "READY=1");
    for _ in 0..5 {
        assert_eq!(next(), "WATCHDOG=1");
    }
    assert!(began.elapsed() >= Duration::from_millis(300), "one at once, then every 100 ms");
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, Signal::TERM).expect("it is there");
    let told = std::iter::repeat_with(next).find(|told| told != "WATCHDOG=1");
    assert_eq!(told.as_deref(), Some("STOPPING=1"));
    assert!(server.wait().expect("its end").success());
}
