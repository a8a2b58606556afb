//! TLS: the server's certificate, and the requirements for client certificates.
//!
//! A new connection uses the current configuration. The certificate and key are read again when their files change, and
//! the client CA together with the auth file. Connections with a certificate of another CA get an error and are closed.

mod der;
mod names;
mod pair;

use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, RwLock};

use leasehold_auth::{Gate, Mtls};
use leasehold_base::sync::{read, write};
use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

pub(super) use names::names;
use pair::Pair;

/// The files of the server's certificate and key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Files {
    /// The certificate in PEM, followed by intermediate certificates.
    pub certificate: PathBuf,
    /// Its private key in PEM.
    pub key: PathBuf,
}

impl Files {
    /// Returns an error if the files are unusable.
    pub fn check(&self) -> Result<(), String> {
        Pair::read(self).map(drop)
    }

    /// Returns when the first of the certificates expires, in epoch milliseconds; `None` if unknown.
    pub fn ends_ms(&self) -> Result<Option<i64>, String> {
        let pair = Pair::read(self)?;
        let ends = pair.certified.cert.iter().map(|certificate| der::read(certificate));
        Ok(ends.filter_map(|said| said.map(|said| said.ends_ms)).min())
    }
}

/// The result of reading the files again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Renewed {
    /// The files have not changed.
    Same,
    /// A new configuration is in force.
    New,
    /// The files are unusable for this reason; the previous configuration stays in force.
    Bad(String),
}

/// The TLS configuration of the listeners.
pub struct Tls {
    files: Files,
    gate: Arc<Gate>,
    current: RwLock<TlsState>,
    /// Whether clients need a certificate. Rings when the requirements change.
    demand: watch::Sender<Demand>,
    /// When the files were last read successfully, in wall-clock milliseconds.
    good_at: AtomicI64,
}

struct TlsState {
    pair: Pair,
    mtls: Option<Arc<Mtls>>,
    config: Arc<ServerConfig>,
}

/// What clients must send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Demand {
    /// A certificate.
    Certificate,
    /// A certificate or none.
    Nothing,
}

impl Demand {
    fn of(mtls: &Option<Arc<Mtls>>) -> Self {
        let is_required = mtls.as_ref().is_some_and(|mtls| mtls.is_required());
        if is_required { Self::Certificate } else { Self::Nothing }
    }
}

/// The configuration that a new connection uses.
pub(super) struct Terms {
    pub(super) acceptor: TlsAcceptor,
    pub(super) mtls: Option<Arc<Mtls>>,
    /// Rings when the requirements for client certificates change.
    pub(super) demand: watch::Receiver<Demand>,
}

impl Tls {
    /// Loads the files. The error names the file.
    pub fn load(files: Files, gate: Arc<Gate>) -> Result<Arc<Self>, String> {
        let pair = Pair::read(&files)?;
        let mtls = gate.mtls();
        let config = config(&pair, mtls.as_deref())?;
        let demand = watch::Sender::new(Demand::of(&mtls));
        let current = RwLock::new(TlsState { pair, mtls, config });
        Ok(Arc::new(Self { files, gate, current, demand, good_at: AtomicI64::new(i64::MAX) }))
    }

    pub(super) fn terms(&self) -> Terms {
        // Subscribes first, so that changes made in between ring.
        let demand = self.demand.subscribe();
        let current = read(&self.current);
        let acceptor = TlsAcceptor::from(current.config.clone());
        Terms { acceptor, mtls: current.mtls.clone(), demand }
    }

    /// Reads the files and the client CA of the current policy again. Blocks.
    pub fn renew(&self) -> Renewed {
        let read = Pair::read(&self.files);
        let mtls = self.gate.mtls();
        let mut current = write(&self.current);
        let (is_other_ca, demand) = (id(&mtls) != id(&current.mtls), Demand::of(&mtls));
        // Unusable certificate files must not keep a client CA in force that is no longer trusted.
        let (pair, bad) = match read {
            Ok(pair) => (pair, None),
            Err(why) => (current.pair.clone(), Some(why)),
        };
        let is_same = pair.hash == current.pair.hash && !is_other_ca;
        let renewed = if is_same {
            Ok(Renewed::Same)
        } else {
            config(&pair, mtls.as_deref()).map(|config| {
                *current = TlsState { pair, mtls, config };
                Renewed::New
            })
        };
        drop(current);
        if is_other_ca && renewed == Ok(Renewed::New) {
            self.demand.send_replace(demand);
        }
        match (bad, renewed) {
            (Some(why), _) | (None, Err(why)) => Renewed::Bad(why),
            (None, Ok(renewed)) => renewed,
        }
    }

    /// Records a result. Returns for how many milliseconds the files have been unusable.
    pub fn note(&self, renewed: &Renewed, wall_ms: i64) -> i64 {
        if !matches!(renewed, Renewed::Bad(_)) {
            self.good_at.store(wall_ms, Relaxed);
            return 0;
        }
        // The files were usable at startup.
        let _ = self.good_at.compare_exchange(i64::MAX, wall_ms, Relaxed, Relaxed);
        wall_ms.saturating_sub(self.good_at.load(Relaxed)).max(0)
    }
}

fn id(mtls: &Option<Arc<Mtls>>) -> Option<&str> {
    mtls.as_deref().map(|mtls| &**mtls.id())
}

/// Creates a configuration with TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1. Early data (0-RTT) is off, because it can be
/// replayed.
fn config(pair: &Pair, mtls: Option<&Mtls>) -> Result<Arc<ServerConfig>, String> {
    let provider = provider();
    let why = |error: rustls::Error| format!("TLS cannot be used: {error}");
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(why)?;
    let builder = match mtls {
        None => builder.with_no_client_auth(),
        Some(mtls) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(mtls.roots(), provider);
            let verifier =
                if mtls.is_required() { verifier } else { verifier.allow_unauthenticated() };
            let verifier = verifier.build().map_err(|error| format!("[mtls] ca-file: {error}"))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let resolver = SingleCertAndKey::from(pair.certified.clone());
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.max_early_data_size = 0;
    if mtls.is_some() {
        // Sessions cannot be resumed: a resuming client does not send its certificate again, so the certificate would
        // not be checked again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
