//! TLS and Unix sockets with the listeners of the real server, and the messages of failed connections.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold::clock::FakeClock;
use leasehold::{Client, ClientBuilder, Error, blocking};
use leasehold_server::http::Listen;
use leasehold_server::serve::Settings;
use leasehold_testkit::{Ca, Issued, Local, TempDir, folder, settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server that listens with plain HTTP, over TLS and on a Unix socket.
struct World {
    local: Local,
    folder: TempDir,
    ca: Ca,
}

impl World {
    async fn new() -> Self {
        Self::with(Ca::server, |_, _| {}).await
    }

    async fn with(server: fn(&Ca) -> Issued, change: impl FnOnce(&mut Settings, &Path)) -> Self {
        let (folder, ca) = (folder(), Ca::new("servers"));
        let mut settings = settings(None);
        settings.listen.push(Listen::Https(([127, 0, 0, 1], 0).into()));
        settings.listen.push(Listen::Unix(folder.path().join("a.sock")));
        settings.tls = Some(server(&ca).write(folder.path(), "server"));
        ca.write(folder.path(), "ca.pem");
        change(&mut settings, folder.path());
        Self { local: Local::start(settings).await, folder, ca }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn https(&self) -> SocketAddr {
        self.local.server.listeners()[1].address().unwrap()
    }

    fn secure(&self) -> ClientBuilder {
        let url = format!("https://localhost:{}", self.https().port());
        Client::builder(&url).ca_file(self.file("ca.pem"))
    }

    fn unix(&self) -> String {
        self.local.server.listeners()[2].to_string()
    }

    /// Returns the error for a server whose certificate cannot be verified. The client must not retry: the clock stands
    /// still, so a client that pauses before a retry never returns.
    async fn untrusted(&self, builder: ClientBuilder) -> String {
        let client = builder.clock(FakeClock::default()).build().unwrap();
        let asked = tokio::time::timeout(Duration::from_secs(20), client.lock("a").acquire());
        let error = asked.await.expect("it is not asked again").unwrap_err();
        assert!(matches!(error, Error::Untrusted(_)), "{error:?}");
        assert!(!error.may_have_taken_effect() && !error.is_retryable());
        error.to_string()
    }

    /// Returns the error of a connection that fails.
    async fn refused(&self, builder: ClientBuilder) -> String {
        let error = builder.build().unwrap().look("a").await.unwrap_err();
        assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
        assert!(!error.may_have_taken_effect() && error.is_retryable());
        error.to_string()
    }
}

#[tokio::test]
async fn a_lock_is_held_over_tls_and_over_a_unix_socket() {
    let world = World::new().await;
    for client in [world.secure().build().unwrap(), Client::new(&world.unix()).unwrap()] {
        let guard = client.lock("orders").acquire().await.unwrap();
        assert!(client.look("orders").await.unwrap().held);
        guard.release().await.unwrap();
        assert!(!client.look("orders").await.unwrap().held);
    }
    world.local.stop().await;
}

#[tokio::test]
async fn http2_is_spoken_over_tls_and_all_waiters_share_its_connection() {
    let world = World::new().await;
    let client = world.secure().build().unwrap();
    let guard = client.lock("a").acquire().await.unwrap();
    let waiters: Vec<_> = (0..10)
        .map(|n| {
            let request = client.lock("a").owner(format!("w{n}")).wait(Duration::from_secs(60));
            tokio::spawn(async move { request.acquire().await.unwrap().release().await })
        })
        .collect();
    let path = "/v1/locks/a";
    let all_wait = async |client: &leasehold_testkit::Client| {
        client.get(path).await.get("n_waiting").as_u64() == Some(10)
    };
    world.local.until("all wait", all_wait).await;
    let metrics = world.local.client.get("/metrics").await.text;
    let line = metrics.lines().find(|line| line.starts_with("leasehold_connections ")).unwrap();
    let n: u64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(n <= 3, "one of ours beside the one that looks: {line}");
    guard.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    world.local.stop().await;
}

#[test]
fn without_async_it_is_the_same() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(World::new());
    for builder in [world.secure(), Client::builder(&world.unix())] {
        let client = blocking::Client::of(builder).unwrap();
        let guard = client.lock("a").acquire().unwrap();
        guard.release().unwrap();
    }
    runtime.block_on(world.local.stop());
}

#[tokio::test]
async fn a_client_shows_its_certificate() {
    let auth = "version = 1\n[mtls]\nca-file = \"ca.pem\"\nprincipal = \"dns\"\nrequired = true\n\
                [[rule]]\nname = \"r\"\nwho = [\"mtls:web-1\"]\nmay = [\"acquire\"]\nnamespaces = [\"*\"]\n";
    let world = World::with(Ca::server, |settings, folder| {
        std::fs::write(folder.join("auth.toml"), auth).unwrap();
        settings.auth_file = Some(folder.join("auth.toml"));
    })
    .await;
    let shown = |issued: &Issued, name: &str| {
        let files = issued.write(world.folder.path(), name);
        world.secure().client_certificate(files.certificate, files.key)
    };
    let client = shown(&world.ca.issue(&["dns:web-1"]), "web-1").build().unwrap();
    let guard = client.lock("a").acquire().await.unwrap();
    let state = client.look("a").await.unwrap();
    assert_eq!(state.principal.as_deref(), Some("mtls:web-1"));
    guard.release().await.unwrap();
    for (builder, why) in [
        (world.secure(), "requires a client certificate (--client-cert-file"),
        (
            shown(&Ca::new("others").issue(&["dns:web-1"]), "other"),
            "does not trust the CA that signed the client certificate",
        ),
        (
            shown(&world.ca.issue_expired(&["dns:web-1"]), "old"),
            "the client certificate has expired",
        ),
    ] {
        let said = world.refused(builder).await;
        // In TLS 1.3 the client has finished its handshake by then, and might send its request before the reason
        // arrives.
        let is_explained = said.contains(why) || said.contains("closed the connection immediately");
        assert!(is_explained && said.contains("--client-cert-file"), "{said}");
    }
    world.local.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_the_server_is_said_in_words() {
    let world = World::new().await;
    let url = format!("https://localhost:{}", world.https().port());
    let said = world.untrusted(Client::builder(&url)).await;
    assert!(said.starts_with(&format!("cannot connect to {url}: ")), "{said}");
    assert!(said.contains("signed by a CA that this client does not trust; pass"), "{said}");
    let other = Ca::new("others").write(world.folder.path(), "others.pem");
    let said = world.untrusted(Client::builder(&url).ca_file(other)).await;
    assert!(said.contains("does not trust; pass the CA certificate"), "{said}");
    assert!(said.contains("LEASEHOLD_CA_FILE"), "{said}");
    let plain = format!("https://{}", world.local.address);
    let said = world.refused(Client::builder(&plain).ca_file(world.file("ca.pem"))).await;
    assert!(
        said.contains("does not use TLS on this port. Should the URL start with http://?"),
        "{said}"
    );
    let missing = format!("unix:{}", world.file("none.sock").display());
    let said = world.refused(Client::builder(&missing)).await;
    assert!(said.starts_with(&format!("cannot connect to {missing}: ")), "{said}");
    world.local.stop().await;
    let world = World::with(|ca| ca.issue_expired(&["dns:localhost"]), |_, _| {}).await;
    let said = world.untrusted(world.secure()).await;
    assert!(said.contains("the server's certificate has expired"), "{said}");
    world.local.stop().await;
    let world = World::with(|ca| ca.issue(&["dns:locks.example.org"]), |_, _| {}).await;
    let said = world.untrusted(world.secure()).await;
    assert!(said.contains("is not for \"localhost\", but for"), "{said}");
    assert!(said.contains("locks.example.org"), "{said}");
    world.local.stop().await;
}

#[tokio::test]
async fn one_server_that_cannot_be_trusted_does_not_keep_from_the_others() {
    let world = World::new().await;
    let untrusted = format!("https://localhost:{}", world.https().port());
    let trusted = format!("http://{}", world.local.address);
    let client = Client::new(&format!("{untrusted},{trusted}")).unwrap();
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
    let dead = leasehold_testkit::nowhere();
    // The second server might come back, so a retry can help.
    let said = world.refused(Client::builder(&format!("{untrusted},http://{dead}"))).await;
    assert!(said.contains("not trust") && said.contains("connection refused"), "{said}");
    world.local.stop().await;
}

#[tokio::test]
async fn plain_http_where_tls_is_spoken_is_told_to_use_https() {
    let world = World::new().await;
    let url = format!("http://localhost:{}", world.https().port());
    let said = Client::new(&url).unwrap().look("a").await.unwrap_err().to_string();
    assert!(said.contains("use https://"), "{said}");
    world.local.stop().await;
}

#[tokio::test]
async fn a_server_that_says_nothing_to_the_handshake_is_not_there() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = folder();
    let ca = Ca::new("servers").write(folder.path(), "ca.pem");
    let url = format!("https://{}", silent.local_addr().unwrap());
    let builder = Client::builder(&url).ca_file(ca).connect_timeout(Duration::from_millis(50));
    let error = builder.build().unwrap().look("a").await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (server, stranger) = tokio::join!(stub(true), stub(false));
    let client = Client::builder(&format!("http://{}", server.0)).api_key("lh_a_b");
    let location = format!("http://{}/v1/locks/a", stranger.0);
    server.1.send(location).unwrap();
    let error = client.build().unwrap().look("a").await.unwrap_err();
    assert!(matches!(error, Error::Foreign { status: 307, .. }), "{error:?}");
    stranger.1.send(String::new()).unwrap();
    assert_eq!(stranger.2.await.unwrap(), 0, "no other server is asked");
    assert_eq!(server.2.await.unwrap(), 1);
}

type Stub = (SocketAddr, tokio::sync::oneshot::Sender<String>, tokio::task::JoinHandle<usize>);

/// Starts a server that answers its only request with a redirect, or one that counts connections until it is told to
/// stop.
async fn stub(redirects: bool) -> Stub {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = tokio::sync::oneshot::channel::<String>();
    let serving = tokio::spawn(async move {
        if !redirects {
            return tokio::select! {
                _ = listener.accept() => 1,
                _ = receiver => 0,
            };
        }
        let location = receiver.await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            assert!(stream.read_buf(&mut request).await.unwrap() > 0);
        }
        assert!(String::from_utf8_lossy(&request).contains("Bearer lh_a_b"));
        let answer = format!(
            "HTTP/1.1 307 Temporary Redirect\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
        1
    });
    (address, sender, serving)
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let folder = folder();
    let said = |builder: ClientBuilder| match builder.build() {
        Ok(_) => panic!("it was built"),
        Err(error) => error.to_string(),
    };
    let at = |file: &str| Client::builder("https://a").ca_file(folder.path().join(file));
    assert!(said(at("none.pem")).contains("none.pem: No such file"));
    std::fs::write(folder.path().join("empty.pem"), "").unwrap();
    assert!(said(at("empty.pem")).contains("empty.pem: has no certificate in PEM"));
    assert!(said(at("empty.pem")).contains("(--ca-file, LEASEHOLD_CA_FILE)"));
    let ca = Ca::new("a");
    ca.write(folder.path(), "ca.pem");
    let (one, other) = (ca.issue(&["dns:a"]), ca.issue(&["dns:a"]));
    let one = one.write(folder.path(), "one");
    let other = other.write(folder.path(), "other");
    assert!(
        said(at("ca.pem").client_certificate(&one.certificate, &other.key)).contains("one.pem")
    );
    assert!(at("ca.pem").client_certificate(one.certificate, one.key).build().is_ok());
    for url in ["http://10.0.0.1", "http://example.org"] {
        let said = said(Client::builder(url).api_key("lh_a_b"));
        assert!(said.contains("unencrypted to another machine; use https://"), "{said}");
    }
    for url in ["https://example.org", "unix:/a.sock", "http://localhost"] {
        let builder = Client::builder(url).api_key("lh_a_b").ca_file(folder.path().join("ca.pem"));
        assert!(builder.build().is_ok(), "{url}");
    }
}
