//! Leasehold with an API key, a token, an audit file or TLS, to measure what each costs.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

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

/// A server whose clients send a credential.
pub(crate) struct LeaseholdCredential {
    name: &'static str,
    server: Leasehold,
    header: String,
}

impl LeaseholdCredential {
    /// Starts a server whose clients send a key with all rights.
    pub(crate) fn key(data: &Path, binary: &str) -> Self {
        let folder = process::empty(data, "leasehold-key");
        let file = folder.join("auth.toml");
        let mut init = Command::new(binary);
        let made = init.args(["auth", "init", "--auth-file"]).arg(&file).output().expect("a key");
        let said = String::from_utf8_lossy(&made.stdout).into_owned();
        let key = said.lines().find(|line| line.starts_with("lh_")).expect("a key").trim();
        let server = start(&folder, binary, &["--auth-file", &file.display().to_string()]);
        Self::shown("leasehold, API key", server, key)
    }

    /// Starts a server whose clients send a signed token. It is valid for a day, so the server checks it once and
    /// remembers it.
    pub(crate) fn token(data: &Path, binary: &str) -> Self {
        let folder = process::empty(data, "leasehold-token");
        let key = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
        let public: RsaPublicKeyComponents<Vec<u8>> = key.public_key().into();
        let (n, e) = (URL_SAFE_NO_PAD.encode(&public.n), URL_SAFE_NO_PAD.encode(&public.e));
        let jwks = serde_json::json!({"keys": [{"kty": "RSA", "kid": "k", "n": n, "e": e}]});
        std::fs::write(folder.join("jwks.json"), jwks.to_string()).expect("a file");
        let file = folder.join("auth.toml");
        std::fs::write(&file, ISSUER).expect("a file");
        let server = start(&folder, binary, &["--auth-file", &file.display().to_string()]);
        Self::shown("leasehold, token", server, &token(&key))
    }

    fn shown(name: &'static str, server: Leasehold, credential: &str) -> Self {
        Self { name, server, header: format!("authorization: Bearer {credential}") }
    }
}

fn start(folder: &Path, binary: &str, flags: &[&str]) -> Leasehold {
    let address = process::free_address();
    let mut command = Command::new(binary);
    command.arg("serve").arg(format!("--listen={address}"));
    command.arg("--data").arg(folder.join("data")).args(flags);
    Leasehold { process: Process::start(command, address, folder) }
}

impl Peer for LeaseholdCredential {
    type Client = LeaseholdClient;

    fn name(&self) -> &'static str {
        self.name
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

const ISSUER: &str = "version = 1\n\
    [[oidc]]\nname = \"oidc\"\nissuer = \"https://id.example.org/realms/bench\"\n\
    audiences = [\"leasehold\"]\njwks-file = \"jwks.json\"\n\
    [[rule]]\nname = \"bench\"\ngroups = [\"oidc:bench\"]\nmay = [\"acquire\"]\nnamespaces = [\"*\"]\n";

/// Returns a token that is about as long as those of real providers.
fn token(key: &RsaKeyPair) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    let claims = serde_json::json!({
        "iss": "https://id.example.org/realms/bench", "aud": ["leasehold", "account"],
        "sub": "0b5c6f1e-9d0f-4c51-8a53-6c1f4f0c2f11", "iat": now, "exp": now + 86_400,
        "jti": "b2a9f1c4-7f1d-4d1a-9d53-3a9c1f8f6f10", "azp": "bench", "scope": "openid profile email",
        "preferred_username": "service-account-bench", "groups": ["bench", "developers"],
    });
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let head = encode(r#"{"alg":"RS256","typ":"JWT","kid":"k"}"#);
    let message = format!("{head}.{}", encode(&claims.to_string()));
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature)
        .expect("a signature");
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// A server that writes an audit file.
pub(crate) struct LeaseholdAudit(Leasehold);

impl LeaseholdAudit {
    pub(crate) fn start(data: &Path, binary: &str) -> Self {
        let folder = process::empty(data, "leasehold-audit");
        let file = folder.join("audit.log").display().to_string();
        Self(start(&folder, binary, &["--audit-file", &file]))
    }
}

impl Peer for LeaseholdAudit {
    type Client = LeaseholdClient;

    fn name(&self) -> &'static str {
        "leasehold, audit file"
    }

    fn pid(&self) -> u32 {
        self.0.pid()
    }

    async fn connect(&self, n: usize) -> LeaseholdClient {
        self.0.connect(n).await
    }
}

/// A server with HTTP/1.1 over TLS 1.3.
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
