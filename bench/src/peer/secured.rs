//! The same server with an API key, and over TLS: to see what that costs.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Peer;
use super::http::Connection;
use super::leasehold::{Leasehold, LeaseholdClient};
use super::process::{self, Process};

/// Whoever asks shows a key that may do everything.
pub(crate) struct LeaseholdKey {
    server: Leasehold,
    header: String,
}

impl LeaseholdKey {
    pub(crate) fn start(data: &Path, binary: &str) -> Self {
        let folder = process::empty(data, "leasehold-key");
        let file = folder.join("auth.toml");
        let mut init = Command::new(binary);
        let made = init.args(["auth", "init", "--auth-file"]).arg(&file).output().expect("a key");
        let said = String::from_utf8_lossy(&made.stdout).into_owned();
        let key = said.lines().find(|line| line.starts_with("lh_")).expect("a key").trim();
        let address = process::free_address();
        let mut command = Command::new(binary);
        command.arg("serve").arg(format!("--listen={address}"));
        command.arg("--data").arg(folder.join("data")).arg("--auth-file").arg(&file);
        let server = Leasehold { process: Process::start(command, address, &folder) };
        Self { server, header: format!("authorization: Bearer {key}") }
    }
}

impl Peer for LeaseholdKey {
    type Client = LeaseholdClient;

    fn name(&self) -> &'static str {
        "leasehold, API key"
    }

    fn pid(&self) -> u32 {
        self.server.pid()
    }

    async fn connect(&self, n: usize) -> LeaseholdClient {
        let mut client = self.server.connect(n).await;
        client.connection = client.connection.with_header(&self.header);
        client
    }
}

/// HTTP/1.1 over TLS 1.3.
pub(crate) struct LeaseholdTls {
    server: Leasehold,
    connector: TlsConnector,
}

impl LeaseholdTls {
    pub(crate) fn start(data: &Path, binary: &str) -> Self {
        let folder = process::empty(data, "leasehold-tls");
        let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
        openssl.args(["-nodes", "-days", "2", "-subj", "/CN=localhost"]);
        openssl.args(["-addext", "subjectAltName=DNS:localhost"]);
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
        let made = openssl.output().expect("openssl");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let address = process::free_address();
        let mut command = Command::new(binary);
        command.arg("serve").arg(format!("--listen=https://{address}"));
        command.arg("--tls-cert-file").arg(&certificate).arg("--tls-key-file").arg(&key);
        command.arg("--data").arg(folder.join("data"));
        let server = Leasehold { process: Process::start(command, address, &folder) };
        Self { server, connector: connector(&certificate) }
    }
}

fn connector(certificate: &Path) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(certificate).expect("a certificate");
    roots.add(certificate).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

impl Peer for LeaseholdTls {
    type Client = LeaseholdClient<Connection<TlsStream<TcpStream>>>;

    fn name(&self) -> &'static str {
        "leasehold, TLS"
    }

    fn pid(&self) -> u32 {
        self.server.pid()
    }

    async fn connect(&self, n: usize) -> Self::Client {
        let stream = TcpStream::connect(self.server.process.address).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = self.connector.connect(name, stream).await.expect("TLS");
        LeaseholdClient { connection: Connection::over(stream), n, proof: String::new() }
    }
}
