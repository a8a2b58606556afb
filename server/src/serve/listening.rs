//! Binds the listeners: HTTP, metrics, peers, and the dedicated listeners of dialects.

use std::sync::Arc;

use super::{Error, Settings};
use crate::cluster::Reached;
use crate::dialect::{self, Dialect};
use crate::http::Listen;
use crate::http::accept::{self, Listener};
use crate::http::handshakes::Handshakes;
use crate::http::opening::Port;
use crate::http::tls::Tls;
use leasehold_auth::Gate;

/// The bound listeners.
pub(super) struct Listening {
    /// The listeners, until they are accepted from.
    pub(super) listeners: Vec<Listener<dialect::Listener>>,
    /// The addresses for all requests, in the order of the settings.
    pub(super) http: Vec<Listen>,
    beside: Vec<(Use, Listen)>,
}

/// The purpose of a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    /// All HTTP requests.
    Http,
    /// `/metrics` and health checks.
    Metrics,
    /// The other servers of the cluster.
    Peers,
    /// A dialect that does not use HTTP.
    Dialect(Dialect),
}

impl Use {
    /// The setting with the address.
    fn flag(self) -> String {
        match self {
            Use::Http => "--listen".into(),
            Use::Metrics => "--metrics-listen".into(),
            Use::Peers => "--peer-listen".into(),
            Use::Dialect(dialect) => format!("--{dialect}-listen"),
        }
    }
}

/// An address at which a server is to listen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The setting with the address.
    pub flag: String,
    /// The address.
    pub listen: Listen,
    /// The address as clients write it.
    pub shown: String,
    /// Whether all requests are served there.
    pub is_for_all: bool,
}

/// Returns all addresses at which a server with these settings listens.
pub fn listeners(settings: &Settings) -> Vec<Wanted> {
    let shown = |what: Use, listen: &Listen| match (what, listen) {
        (Use::Dialect(dialect), Listen::Http(address)) => format!("{dialect}://{address}"),
        (Use::Dialect(dialect), Listen::Https(address)) => format!("{dialect}s://{address}"),
        _ => listen.to_string(),
    };
    let wanted = wanted(settings).map(|(what, listen, _)| Wanted {
        flag: what.flag(),
        shown: shown(what, &listen),
        listen,
        is_for_all: what == Use::Http,
    });
    wanted.collect()
}

impl Wanted {
    /// Checks whether a server could listen there. The address stays bound while the result lives. Accepts no
    /// connection and leaves nothing behind.
    pub async fn attempt(&self) -> std::io::Result<Attempt> {
        accept::try_bind(&self.listen).await.map(Attempt)
    }
}

/// An address that is bound only to check that it can be.
pub struct Attempt(
    #[expect(dead_code, reason = "it is held, not used")] Option<tokio::net::TcpListener>,
);

impl Listening {
    /// Binds all listeners of the settings.
    pub(super) async fn begin(settings: &Settings, tls: &Option<Arc<Tls>>) -> Result<Self, Error> {
        let handshakes = Handshakes::new(settings.http.handshakes_max);
        let mut bound = Self { listeners: Vec::new(), http: Vec::new(), beside: Vec::new() };
        for (what, listen, dialect) in wanted(settings) {
            let port = Port {
                tls: tls.clone().filter(|_| listen.is_tls()),
                unix_path: listen.unix_path().map(Into::into),
                is_for_metrics: what == Use::Metrics,
                is_for_peers: what == Use::Peers,
                handshakes: handshakes.clone(),
                protocol: dialect,
            };
            let cannot = |error| Error::Listen(listen.to_string(), error);
            let bind = Listener::bind(&listen, port, &settings.http);
            let (listener, listen) = bind.await.map_err(cannot)?;
            bound.listeners.push(listener);
            match what {
                Use::Http => bound.http.push(listen),
                _ => bound.beside.push((what, listen)),
            }
        }
        Ok(bound)
    }

    /// Returns the addresses at which other servers and clients reach this one; `None` without a cluster.
    pub(super) fn reached(&self, settings: &Settings) -> Result<Option<Reached>, Error> {
        let Some(cluster) = &settings.cluster else { return Ok(None) };
        let peers = self.beside(Use::Peers).and_then(Listen::address);
        let peers = peers.unwrap_or_else(|| cluster.peers(&self.http));
        cluster.reached(&self.http, peers).map(Some).map_err(Error::Cluster)
    }

    /// Returns the address of the listener for this purpose.
    pub(super) fn beside(&self, what: Use) -> Option<&Listen> {
        self.beside.iter().find(|(on, _)| *on == what).map(|(_, listen)| listen)
    }
}

/// Loads the TLS certificate, if a listener needs it.
pub(super) fn certificate(
    settings: &Settings,
    auth: &Arc<Gate>,
) -> Result<Option<Arc<Tls>>, Error> {
    if let Some(files) = &settings.tls {
        return Tls::load(files.clone(), auth.clone()).map(Some).map_err(Error::Tls);
    }
    match wanted(settings).find(|(_, listen, _)| listen.is_tls()) {
        Some((what, listen, _)) => {
            let flag = match what {
                Use::Dialect(dialect) => format!("--{dialect}-tls"),
                what => format!("{} {listen}", what.flag()),
            };
            Err(Error::Tls(format!(
                "{flag} needs a certificate: --tls-cert-file and --tls-key-file"
            )))
        }
        None => Ok(None),
    }
}

fn wanted(settings: &Settings) -> impl Iterator<Item = (Use, Listen, Option<dialect::Listener>)> {
    let http = settings.listen.iter().map(|listen| (Use::Http, listen.clone(), None));
    let metrics = settings.metrics_listen.iter();
    let metrics = metrics.map(|listen| (Use::Metrics, listen.clone(), None));
    let dialects = settings.dialects.iter().filter_map(|dialect| {
        let listener = dialect.listener()?;
        let listen = (listener.address)(&settings.dialect)?;
        Some((Use::Dialect(*dialect), listen, Some(listener)))
    });
    let peers = settings.cluster.iter();
    let peers =
        peers.map(|cluster| (Use::Peers, Listen::Http(cluster.peers(&settings.listen)), None));
    http.chain(metrics).chain(dialects).chain(peers)
}
