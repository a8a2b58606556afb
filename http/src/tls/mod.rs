//! TLS: the certificate in force, and who may connect by theirs.
//!
//! Whoever connects is served by what is in force at that moment. Certificate and key are read again when they change,
//! and the CA of clients with the auth file; whoever showed a certificate of another CA is told so, and closed.

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

/// The certificate and its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Files {
    /// The certificate in PEM, followed by those between it and its CA.
    pub certificate: PathBuf,
    /// Its private key in PEM.
    pub key: PathBuf,
}

impl Files {
    /// Says what is wrong with them, if anything is.
    pub fn check(&self) -> Result<(), String> {
        Pair::read(self).map(drop)
    }

    /// When the first of the certificates ends, in epoch milliseconds; `None`: they do not say.
    pub fn ends_ms(&self) -> Result<Option<i64>, String> {
        let pair = Pair::read(self)?;
        let ends = pair.certified.cert.iter().map(|certificate| der::read(certificate));
        Ok(ends.filter_map(|said| said.map(|said| said.ends_ms)).min())
    }
}

/// What came of looking at the files again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Renewed {
    /// They are as they were.
    Same,
    /// Something else is in force now.
    New,
    /// They cannot be used, for this reason; what was in force stays.
    Bad(String),
}

/// What TLS listeners go by.
pub struct Tls {
    files: Files,
    gate: Arc<Gate>,
    current: RwLock<Current>,
    /// Whether clients need a certificate; rings when what is said of them is another.
    demand: watch::Sender<Demand>,
    /// When the files were last read and good, in wall-clock milliseconds.
    good_at: AtomicI64,
}

struct Current {
    pair: Pair,
    mtls: Option<Arc<Mtls>>,
    config: Arc<ServerConfig>,
}

/// What clients have to show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Demand {
    /// A certificate.
    Certificate,
    /// A certificate, or nothing.
    Nothing,
}

impl Demand {
    fn of(mtls: &Option<Arc<Mtls>>) -> Self {
        let is_required = mtls.as_ref().is_some_and(|mtls| mtls.is_required());
        if is_required { Self::Certificate } else { Self::Nothing }
    }
}

/// What a new connection is let in by.
pub(super) struct Terms {
    pub(super) acceptor: TlsAcceptor,
    pub(super) mtls: Option<Arc<Mtls>>,
    /// Rings when what is said of the certificates of clients is another.
    pub(super) demand: watch::Receiver<Demand>,
}

impl Tls {
    /// Reads the files. An error says which of them is wrong, and how.
    pub fn load(files: Files, gate: Arc<Gate>) -> Result<Arc<Self>, String> {
        let pair = Pair::read(&files)?;
        let mtls = gate.mtls();
        let config = config(&pair, mtls.as_deref())?;
        let demand = watch::Sender::new(Demand::of(&mtls));
        let current = RwLock::new(Current { pair, mtls, config });
        Ok(Arc::new(Self { files, gate, current, demand, good_at: AtomicI64::new(i64::MAX) }))
    }

    pub(super) fn terms(&self) -> Terms {
        // Before the rest: what changes in between rings.
        let demand = self.demand.subscribe();
        let current = read(&self.current);
        let acceptor = TlsAcceptor::from(current.config.clone());
        Terms { acceptor, mtls: current.mtls.clone(), demand }
    }

    /// Looks at the files again, and at the CA of the policy in force. This blocks.
    pub fn renew(&self) -> Renewed {
        let read = Pair::read(&self.files);
        let mtls = self.gate.mtls();
        let mut current = write(&self.current);
        let (is_other_ca, demand) = (id(&mtls) != id(&current.mtls), Demand::of(&mtls));
        // A bad pair must not keep a CA in force that is not trusted any more.
        let (pair, bad) = match read {
            Ok(pair) => (pair, None),
            Err(why) => (current.pair.clone(), Some(why)),
        };
        let is_same = pair.hash == current.pair.hash && !is_other_ca;
        let renewed = if is_same {
            Ok(Renewed::Same)
        } else {
            config(&pair, mtls.as_deref()).map(|config| {
                *current = Current { pair, mtls, config };
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

    /// For how long the files have been unusable, in milliseconds.
    pub fn note(&self, renewed: &Renewed, wall_ms: i64) -> i64 {
        if !matches!(renewed, Renewed::Bad(_)) {
            self.good_at.store(wall_ms, Relaxed);
            return 0;
        }
        // They were good at the start.
        let _ = self.good_at.compare_exchange(i64::MAX, wall_ms, Relaxed, Relaxed);
        wall_ms.saturating_sub(self.good_at.load(Relaxed)).max(0)
    }
}

fn id(mtls: &Option<Arc<Mtls>>) -> Option<&str> {
    mtls.as_deref().map(|mtls| &**mtls.id())
}

/// Both versions of TLS, HTTP/2 and HTTP/1.1. Nothing is taken before the handshake is over (0-RTT could be repeated).
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
        // Whoever resumes a session does not show its certificate again, and nobody would look whether it still counts.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
