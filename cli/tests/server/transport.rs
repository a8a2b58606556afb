//! Listeners, TLS and Unix sockets with the real binary: the server, the commands, `run` and the recipe in the
//! documentation.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use leasehold_testkit::{Ca, Process, Signal, TempDir, folder, json, wrapped};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");

struct World {
    folder: TempDir,
    ca: Ca,
}

impl World {
    fn new() -> Self {
        let (folder, ca) = (folder(), Ca::new("servers"));
        ca.server().write(folder.path(), "server");
        ca.write(folder.path(), "ca.pem");
        Self { folder, ca }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn flag(&self, flag: &str, name: &str) -> String {
        format!("--{flag}={}", self.path(name).display())
    }

    /// Starts a server with TLS and these additional flags.
    fn serve(&self, more: &[&str]) -> Process {
        let (cert, key) =
            (self.flag("tls-cert-file", "server.pem"), self.flag("tls-key-file", "server.key"));
        let flags = [&["--listen=https://127.0.0.1:0", &cert, &key][..], more].concat();
        Process::start(BINARY, &self.path("data"), &flags)
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command.current_dir(self.folder.path()).args(words).env_remove("LEASEHOLD_API_KEY");
        command.output().expect("the binary")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn commands_and_run_work_over_tls_and_over_a_unix_socket() {
    let world = World::new();
    let socket = format!("unix:{}", world.path("a.sock").display());
    let server = world.serve(&[&format!("--listen={socket}")]);
    let https = format!("https://localhost:{}", server.address.port());
    for (url, ca) in [(&https, &["--ca-file", "ca.pem"][..]), (&socket, &[])] {
        let ask = |words: &[&str]| world.run(&[words, &["--url", url], ca].concat());
        let acquired = ask(&["acquire", "deploy", "--ttl", "60", "--json"]);
        assert!(acquired.status.success(), "{acquired:?}");
        assert!(text(&ask(&["ls"]).stdout).contains("deploy"));
        assert!(ask(&["revoke", "deploy", "--reason", "test"]).status.success());
        let told = "echo $LEASEHOLD_URL $LEASEHOLD_CA_FILE; \"$0\" status job";
        let run =
            [&["run", "job", "--url", url.as_str()][..], ca, &["--", "sh", "-c", told, BINARY]];
        let ran = world.run(&run.concat());
        let said = text(&ran.stdout);
        assert!(ran.status.success() && said.contains(url.as_str()), "{ran:?}");
        assert_eq!(said.contains("/ca.pem"), !ca.is_empty(), "{said}");
    }
    assert!(world.path("a.sock").exists());
    assert!(server.terminate().success());
    assert!(!world.path("a.sock").exists());
}

#[test]
fn what_is_wrong_with_a_certificate_is_said_with_what_to_do() {
    let world = World::new();
    let server = world.serve(&[]);
    let url = format!("https://localhost:{}", server.address.port());
    let ls = |more: &[&str]| {
        let words = [&["ls", "--url", &url, "--connect-timeout", "20s"][..], more].concat();
        let output = world.run(&words);
        assert!(!output.status.success());
        text(&output.stderr)
    };
    let said = ls(&[]);
    assert!(said.contains("not trust") && said.contains("--ca-file"), "{said}");
    assert!(ls(&["--ca-file", "none.pem"]).contains("none.pem: No such file"));
    let said = ls(&["--client-cert-file", "server.pem"]);
    assert!(said.contains("--client-key-file"), "{said}");
    assert!(!said.contains("Is the server running?"), "it answered: {said}");
    // Another CA, and another one with the same name.
    for name in ["others", "servers"] {
        Ca::new(name).write(world.folder.path(), "wrong.pem");
        let said = ls(&["--ca-file", "wrong.pem"]);
        assert!(said.contains("signed by a CA that this client does not trust"), "{said}");
    }
    world.ca.issue(&["dns:web-1"]).write(world.folder.path(), "client");
    let pair = ["--ca-file", "ca.pem", "--client-cert-file", "client.pem", "--client-key-file"];
    let said = ls(&[&pair[..], &["server.key"]].concat());
    assert!(
        said.contains("server.key: is not the private key of the certificate in client.pem"),
        "{said}"
    );
    let said = ls(&[&pair[..], &["ca.pem"]].concat());
    assert!(said.contains("ca.pem: has no usable private key in PEM"), "{said}");
    let plain = format!("http://127.0.0.1:{}", server.address.port());
    let wrong = world.run(&["ls", "--url", &plain, "--connect-timeout", "20s"]);
    let said = text(&wrong.stderr);
    assert!(wrong.status.code() == Some(68) && said.contains("start with https://?"), "{said}");
}

#[test]
fn what_is_wrong_with_a_socket_file_is_said_in_words() {
    let world = World::new();
    let ls = |name: &str| {
        let url = format!("unix:{}", world.path(name).display());
        let output = world.run(&["ls", "--url", &url, "--connect-timeout", "200ms"]);
        assert_eq!(output.status.code(), Some(68), "{output:?}");
        text(&output.stderr)
    };
    let said = ls("none.sock");
    let expected =
        "none.sock: there is no such socket file. Is the server running? (--url, LEASEHOLD_URL)\n";
    assert!(said.ends_with(expected), "{said}");
    // A socket file that was left by a killed server.
    drop(std::os::unix::net::UnixListener::bind(world.path("old.sock")).expect("a socket"));
    assert!(ls("old.sock").contains("connection refused. Is the server running?"));
}

#[test]
fn every_listener_is_announced_and_counts_for_the_safe_rule() {
    let world = World::new();
    let (cert, key) =
        (world.flag("tls-cert-file", "server.pem"), world.flag("tls-key-file", "server.key"));
    let mut server = Command::new(BINARY);
    server.args(["serve", "--ephemeral", "--listen=127.0.0.1:0", "--listen=https://127.0.0.1:0"]);
    server.args(["--listen=unix:a.sock", "--metrics-listen=127.0.0.1:0", &cert, &key]);
    server.arg("--log-format=text");
    server.current_dir(world.folder.path()).stderr(Stdio::piped());
    let mut server = server.spawn().expect("the binary");
    let said = BufReader::new(server.stderr.take().expect("it is ours"));
    let said: Vec<_> =
        said.lines().map_while(Result::ok).take_while(|line| !line.contains("auth ")).collect();
    let _ = server.kill();
    let _ = server.wait();
    let said = said.join("\n");
    for listener in [
        "listening  http://127.0.0.1:",
        "listening  https://127.0.0.1:",
        "listening  unix:a.sock",
        "metrics    http://127.0.0.1:",
    ] {
        assert!(said.contains(listener), "{said}");
    }
    let check = |flags: &[&str]| world.run(&[&["check-config"][..], flags].concat());
    let open = check(&["--listen=127.0.0.1:0", "--listen=unix:a.sock", "--listen=0.0.0.0:0"]);
    assert!(!open.status.success());
    let said = text(&open.stderr);
    assert!(said.contains("--listen http://0.0.0.0:0 accepts remote connections"), "{said}");
    let open = check(&["--listen=https://0.0.0.0:0", &cert, &key]);
    assert!(!open.status.success(), "TLS says nothing of who asks");
    let local = check(&["--listen=unix:a.sock", "--metrics-listen=0.0.0.0:9090"]);
    assert!(local.status.success(), "{local:?}");
    assert!(text(&local.stdout).contains("listen = [\"unix:a.sock\"]  # --listen"));
    for (flags, why) in [
        (&["--listen=https://127.0.0.1:0"][..], "needs a certificate: --tls-cert-file"),
        (&["--listen=127.0.0.1:0", &cert], "--tls-cert-file needs --tls-key-file"),
        (&["--listen=127.0.0.1:0", &cert, &key], "no --listen begins with https://"),
        (&["--listen=unix:"], "has no path"),
        (&["--unix-socket-mode=660"], "is not a mode such as \"0660\""),
        (&["--proxy-protocol-from=lb"], "is neither an address nor a network"),
        (&["--handshakes-max=0"], "--handshakes-max"),
    ] {
        let said = text(&check(flags).stderr);
        assert!(said.contains(why), "{flags:?}: {said}");
    }
}

#[test]
fn a_certificate_is_read_again_at_sighup() {
    let world = World::new();
    let server = world.serve(&[]);
    let url = format!("https://localhost:{}", server.address.port());
    let other = Ca::new("new servers");
    other.write(world.folder.path(), "other.pem");
    other.server().write(world.folder.path(), "server");
    server.signal(Signal::HUP);
    let is_renewed =
        || world.run(&["ls", "--url", &url, "--ca-file", "other.pem"]).status.success();
    let began = std::time::Instant::now();
    while !is_renewed() {
        assert!(began.elapsed() < std::time::Duration::from_secs(180), "never renewed");
    }
    assert!(!world.run(&["ls", "--url", &url, "--ca-file", "ca.pem"]).status.success());
}

/// Runs the lines of the documentation unchanged.
#[test]
fn the_recipe_for_client_certificates_works() {
    let world = World::new();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operate/tls.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, rest) = page.split_once("A recipe with openssl").expect("the recipe");
    let openssl = rest.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
    let openssl = openssl.expect("a block");
    let ls = rest.lines().find_map(|line| line.strip_prefix("leasehold ls ")).expect("its request");
    let (ls, _) = ls.split_once(" 2>").expect("a file for its messages");
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", openssl]).current_dir(world.folder.path());
    let made = shell.output().expect("a shell");
    assert!(made.status.success(), "{made:?}");
    let rules = "version = 1\n[mtls]\nca-file = \"clients.pem\"\nprincipal = \"dns\"\n\
                 [[rule]]\nname = \"r\"\nwho = [\"mtls:web-1\"]\nmay = [\"read\"]\nnamespaces = [\"*\"]\n";
    std::fs::write(world.path("auth.toml"), rules).expect("a file");
    let server = world.serve(&[&world.flag("auth-file", "auth.toml")]);
    let here = format!("https://localhost:{}", server.address.port());
    let words = ["ls", "--url", &here, "--ca-file", "ca.pem"].into_iter();
    let words: Vec<_> = words.chain(ls.split_whitespace()).collect();
    let listed = world.run(&words);
    assert!(listed.status.success(), "{listed:?}");
    let anonymous = world.run(&["ls", "--url", &here, "--ca-file", "ca.pem"]);
    assert_eq!(anonymous.status.code(), Some(77), "{anonymous:?}");
    let said = text(&anonymous.stderr);
    assert!(
        said.contains("accepted: a client certificate (") && !said.contains("API key"),
        "{said}"
    );
    let flag = world.flag("auth-file", "auth.toml");
    let warned = world.run(&["check-config", &flag, "--listen=127.0.0.1:0"]);
    let said = text(&warned.stderr);
    assert!(warned.status.success() && said.contains("[mtls] has no effect"), "{said}");
    drop(world.ca);
}

/// Returns the output of `check-config`, with the files in this directory instead of those in `elsewhere`.
fn checked(world: &World, config: &[&str], elsewhere: &str) -> String {
    let here = world.folder.path().display().to_string();
    let words: Vec<_> = config.iter().map(|word| word.replace(elsewhere, &here)).collect();
    let words = ["check-config"].into_iter().chain(words.iter().map(String::as_str));
    let output = world.run(&words.collect::<Vec<_>>());
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// A server accepts the settings in docs/operate/cluster-setup.md and those in the Kubernetes manifest.
#[test]
fn cluster_settings_are_required_together() {
    let world = World::new();
    let here = world.folder.path().display().to_string();
    for (from, to) in [
        ("server.pem", "cert.pem"),
        ("server.key", "key.pem"),
        ("server.pem", "tls.crt"),
        ("server.key", "tls.key"),
        ("ca.pem", "ca.crt"),
    ] {
        std::fs::copy(world.path(from), world.path(to)).expect("a copy");
    }
    std::fs::write(world.path("peers"), "a secret of servers".replace(' ', "-")).expect("a file");
    let made = world.run(&["auth", "init", &world.flag("auth-file", "auth.toml")]);
    assert!(made.status.success(), "{made:?}");

    let page = include_str!("../../../docs/operate/cluster-setup.md");
    let settings = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let settings = settings.expect("a block").replace("/etc/leasehold/auth", &here);
    let file = world.path("leasehold.toml").display().to_string();
    std::fs::write(&file, &settings).expect("a file");
    let said = checked(&world, &["--config", &file], "/nowhere");
    assert!(said.contains(&format!("node-name = \"n1\"  # {file}:2\n")), "{said}");
    // Settings that another setting requires are still required.
    std::fs::write(&file, settings.replace("\npeer-secret-file", "\n# ")).expect("a file");
    let said = checked(&world, &["--config", &file], "/nowhere");
    assert!(said.contains("--peer-secret-file is required"), "{said}");
    std::fs::write(&file, "node-name = \"n1\"\n").expect("a file");
    let said = checked(&world, &["--config", &file], "/nowhere");
    assert!(said.contains("not provided:\n  --store"), "{said}");

    let manifest = include_str!("../../../packaging/kubernetes/cluster/leasehold.yaml");
    let flags = manifest.lines().filter_map(|line| line.trim().strip_prefix("- --"));
    let flags: Vec<_> = flags
        .map(|flag| format!("--{}", flag.replace("$(POD)", "n-0")))
        .map(|flag| flag.replace("/etc/leasehold-etcd-tls", &here))
        .map(|flag| flag.replace("/etc/leasehold-tls", &here))
        .collect();
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let said = checked(&world, &flags, "/etc/leasehold");
    assert!(said.contains("advertise = \"https://n-0.leasehold-nodes:8443\""), "{said}");
}

#[tokio::test]
async fn a_webhook_goes_over_tls_to_whom_the_system_trusts() {
    let world = World::new();
    // Another server serves as the receiver: each warning acquires a lock there.
    let receiver = world.serve(&[]);
    let port = receiver.address.port();
    for (n, trusts, result) in [(1, true, "success"), (2, false, "fail")] {
        let ca = world.path("ca.pem");
        let before =
            if trusts { format!("SSL_CERT_FILE={} exec", ca.display()) } else { "exec".into() };
        let binary = wrapped(&world.path(&format!("wrapped-{n}")), &before, BINARY);
        let path = format!("lock?client=hook&ttl=10m&job=told-{n}");
        let url = format!("--webhook-url=https://localhost:{port}/{path}");
        let flags = [&*url, "--held-warn=1ms", "--webhook-attempts-max=1"];
        let server = Process::start(&binary, &world.path(&format!("data-{n}")), &flags);
        assert_eq!(server.client.acquire("db", "a", 600_000, json!({})).await.status, 200);
        let counted = format!("leasehold_webhooks_total{{result=\"{result}\"}} 1");
        let mut metrics = String::new();
        for _ in 0..24_000 {
            metrics = server.client.get("/metrics").await.text;
            if metrics.lines().any(|line| line == counted) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert!(metrics.lines().any(|line| line == counted), "{counted}: {metrics}");
        assert!(server.terminate().success());
    }
    let ask = ["ls", "--url", &format!("https://localhost:{port}"), "--ca-file", "ca.pem"];
    let listed = text(&world.run(&ask).stdout);
    assert!(listed.contains("told-1") && !listed.contains("told-2"), "{listed}");
}

#[test]
fn a_webhook_that_is_not_private_or_cannot_be_is_refused() {
    let world = World::new();
    for (flags, words) in [
        (&["--webhook-url=http://hooks.example/s3cret"][..], "--webhook-insecure-http"),
        (&["--webhook-url=https://hooks.example:99999/"], "port from 1 to 65535"),
        (&["--webhook-url=https://hooks.example:0/"], "port from 1 to 65535"),
        (&["--webhook-url=ftp://hooks.example/"], "must begin with https://"),
    ] {
        let out = world.run(&[&["check-config"], flags].concat());
        let said = text(&out.stderr);
        assert!(!out.status.success() && said.contains(words), "{said:?} does not say {words:?}");
        assert!(!said.contains("s3cret"), "a path is not shown: {said}");
    }
    for flags in [
        &["--webhook-url=https://hooks.example/"][..],
        &["--webhook-url=http://127.0.0.1:1/"],
        &["--webhook-url=http://hooks.example/", "--webhook-insecure-http"],
    ] {
        let out = world.run(&[&["check-config"], flags].concat());
        assert!(out.status.success(), "{flags:?}: {}", text(&out.stderr));
    }
}
