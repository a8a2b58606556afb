//! Tests of listeners: plain TCP, TLS, Unix sockets, and connections from a load balancer.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod dead;
mod metrics;
mod mtls;
mod proxy;
mod slow;
mod sso;
mod tls;
mod unix;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leasehold_server::http::{Listen, TlsFiles};
use leasehold_server::serve::Settings;
use leasehold_testkit::{Ca, Issued, Local, TempDir, Value, folder, json, settings};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Test timeout, longer than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(180);
const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
const BOTH: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12, &rustls::version::TLS13];

type Tls = TlsStream<TcpStream>;

/// A server with a plain and a TLS listener. Its certificate comes from its own CA.
struct World {
    local: Local,
    folder: TempDir,
    ca: Ca,
}

impl World {
    async fn new() -> Self {
        Self::with(|_, _| {}).await
    }

    /// Starts a server with changed settings. They can refer to files in its directory.
    async fn with(change: impl FnOnce(&mut Settings, &std::path::Path)) -> Self {
        let (folder, ca) = (folder(), Ca::new("servers"));
        let mut settings = settings(None);
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        settings.listen.push(Listen::Https(any));
        settings.tls = Some(ca.server().write(folder.path(), "server"));
        change(&mut settings, folder.path());
        let local = Local::start(settings).await;
        Self { local, folder, ca }
    }

    fn https(&self) -> SocketAddr {
        let mut all = self.local.server.listeners().iter();
        all.find_map(|listen| listen.address().filter(|_| listen.is_tls())).unwrap()
    }

    /// Returns a TLS configuration for a client that trusts this server's CA.
    fn config(&self) -> ClientConfig {
        config(&self.ca, BOTH, None)
    }

    async fn connect(&self) -> Tls {
        connect(self.https(), self.config()).await.unwrap()
    }

    /// Returns the value of the first metric whose line starts with `name`.
    async fn metric(&self, name: &str) -> Option<u64> {
        let text = self.local.client.get("/metrics").await.text;
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    async fn until_metric(&self, name: &str, is_so: impl Fn(u64) -> bool) {
        let seen =
            async |_: &leasehold_testkit::Client| self.metric(name).await.is_some_and(&is_so);
        self.local.until(name, seen).await;
    }
}

fn config(
    ca: &Ca,
    versions: &[&'static SupportedProtocolVersion],
    client: Option<&Issued>,
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    match client {
        None => builder.with_no_client_auth(),
        Some(Issued { certificate, key }) => {
            let chain = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![chain], key).unwrap()
        }
    }
}

async fn connect(address: SocketAddr, config: ClientConfig) -> std::io::Result<Tls> {
    connect_shared(address, &Arc::new(config)).await
}

async fn connect_shared(address: SocketAddr, config: &Arc<ClientConfig>) -> std::io::Result<Tls> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(config.clone()).connect(name, stream).await
}

/// Sends a request and reads one response with a content length. Returns what arrived if the connection ends early.
async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), request: &str) -> String {
    let mut bytes = Vec::new();
    let asking = async {
        if stream.write_all(request.as_bytes()).await.is_err() || stream.flush().await.is_err() {
            return;
        }
        while !is_whole(&bytes) && stream.read_buf(&mut bytes).await.unwrap_or(0) > 0 {}
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("no answer");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    let length = head.split_once("content-length: ").and_then(|(_, rest)| rest.lines().next());
    body.len() >= length.and_then(|length| length.trim().parse().ok()).unwrap_or(0)
}

fn status(answer: &str) -> u16 {
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("no status in {answer:?}"))
}

/// Returns a `POST` request with a JSON body.
fn post(path: &str, headers: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Returns an acquire request for `lock` that waits up to `wait_ms`.
fn acquire(lock: &str, owner: &str, wait_ms: u64) -> String {
    let body = json!({"owner_id": owner, "ttl_ms": 60_000, "wait_ms": wait_ms});
    post(&format!("/v1/locks/{lock}/acquire"), "", &body)
}

async fn until_waiting(local: &Local, lock: &str, n_waiting: u64) {
    let path = format!("/v1/locks/{lock}");
    let is_so = async |client: &leasehold_testkit::Client| {
        client.get(&path).await.get("n_waiting").as_u64().unwrap_or(0) == n_waiting
    };
    local.until(&format!("{n_waiting} wait"), is_so).await;
}

async fn is_held(local: &Local, lock: &str) -> bool {
    local.client.get(&format!("/v1/locks/{lock}")).await.get("held") == true
}

/// Replaces the server's certificate files by `files`, as a renewal does.
fn renew(files: &Issued, folder: &TempDir) -> TlsFiles {
    files.write(folder.path(), "server")
}
