//! The start of a connection before its first request: the PROXY header of a load balancer, and the TLS handshake.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::timeout;

use super::Options;
use super::handshakes::Handshakes;
use super::line::Line;
use super::lingering::Lingering;
use super::options::is_in;
use super::places::Place;
use super::proxy_header;
use super::tls::{self, Demand, Tls};
use super::wire::Wire;
use crate::request::{Link, Peer, Visitor};

/// The start of the first line of a connection that another server of the cluster forwards. HTTP/2 connections start
/// differently.
pub const FORWARDED: &[u8] = b"LEASEHOLD ";
/// Maximum length of that line.
pub const FORWARDED_BYTES_MAX: usize = 16 * 1024;

/// The settings of a listener that its connections need.
pub struct Port<P> {
    /// The TLS configuration; `None` for plain text.
    pub tls: Option<Arc<Tls>>,
    /// The path of a Unix socket.
    pub unix_path: Option<Arc<Path>>,
    /// The listener serves only `/metrics` and health checks.
    pub is_for_metrics: bool,
    /// The listener serves only the other servers of the cluster.
    pub is_for_peers: bool,
    /// Handshakes in progress on all listeners.
    pub handshakes: Arc<Handshakes>,
    /// The dialect of the listener; `None` for HTTP.
    pub protocol: Option<P>,
}

/// A connection that is ready for requests.
pub(super) struct Opened {
    pub(super) line: Line,
    pub(super) visitor: Visitor,
    /// The first line, if another server forwards the connection of one of its clients.
    pub(super) first_line: Option<Vec<u8>>,
    /// Rings when the requirements for client certificates change; `None` if clients cannot send one.
    pub(super) demand: Option<watch::Receiver<Demand>>,
}

/// Why a connection was closed before its first request.
#[derive(Debug)]
pub(super) enum Unopened {
    /// The handshake took too long.
    Timeout,
    /// The connection had to make room for another one.
    Shed,
    /// The PROXY header is missing or invalid.
    ProxyHeader(io::Error),
    /// A forwarding server did not describe the client.
    Peer(io::Error),
    /// The TLS handshake failed. The connection can linger, so that the client can read the reason.
    Tls(io::Error, Option<Lingering>),
}

impl Unopened {
    /// The reason, as a metric label.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Unopened::Timeout => "timeout",
            Unopened::Shed => "shed",
            Unopened::ProxyHeader(_) => "proxy_header",
            Unopened::Peer(_) => "peer",
            Unopened::Tls(..) => "tls",
        }
    }
}

impl fmt::Display for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unopened::Timeout => f.write_str("the handshake took too long (handshake-timeout)"),
            Unopened::Shed => f.write_str("dropped in favor of newer handshakes (handshakes-max)"),
            Unopened::ProxyHeader(error) => write!(f, "PROXY protocol: {error}"),
            Unopened::Peer(error) => write!(f, "another server: {error}"),
            Unopened::Tls(error, _) => write!(f, "TLS: {error}"),
        }
    }
}

impl<P> Port<P> {
    /// Opens a connection within the time limit.
    pub(super) async fn open(
        &self,
        wire: Wire,
        peer: Peer,
        place: Place,
        options: &Options,
    ) -> Result<(Opened, Place), Unopened> {
        let has_header =
            wire.socket().tcp().is_some() && is_in(&options.proxy_protocol_from, peer.address());
        let link = Link {
            is_tls: self.tls.is_some(),
            unix_path: self.unix_path.clone(),
            certificate: None,
            is_relayed: has_header,
            is_for_metrics: self.is_for_metrics,
            is_for_peers: self.is_for_peers,
        };
        if self.is_for_peers {
            let reading = timeout(options.handshake_timeout, first_line(&wire));
            let first_line = reading.await.map_err(|_| Unopened::Timeout)?;
            let first_line = first_line.map_err(Unopened::Peer)?;
            let (opened, place) = opened(Line::clear(wire), peer, place, link, None);
            return Ok((Opened { first_line, ..opened }, place));
        }
        if self.tls.is_none() && !has_header {
            return Ok(opened(Line::clear(wire), peer, place, link, None));
        }
        let handshake = self.handshakes.begin();
        let activity = place.activity.clone();
        let opening = async {
            let (peer, place) =
                if has_header { believe_header(&wire, peer, place).await? } else { (peer, place) };
            self.secure(wire, peer, place, link).await
        };
        tokio::select! {
            biased;
            () = handshake.until_shed() => Err(Unopened::Shed),
            () = activity.until_shed() => Err(Unopened::Shed),
            opened = timeout(options.handshake_timeout, opening) => {
                opened.map_err(|_| Unopened::Timeout)?
            }
        }
    }

    async fn secure(
        &self,
        wire: Wire,
        peer: Peer,
        place: Place,
        mut link: Link,
    ) -> Result<(Opened, Place), Unopened> {
        let Some(tls) = &self.tls else {
            return Ok(opened(Line::clear(wire), peer, place, link, None));
        };
        let terms = tls.terms();
        let socket = wire.clone();
        let secured = match terms.acceptor.accept(wire).await {
            Ok(secured) => secured,
            Err(error) => {
                // A TLS 1.3 client might already be sending its request. Lingering lets it read the error.
                return Err(Unopened::Tls(error, place.leave(&socket)));
            }
        };
        if let (Some(mtls), [certificate, ..]) =
            (&terms.mtls, secured.get_ref().1.peer_certificates().unwrap_or_default())
        {
            let unread = || io::Error::other("cannot read the client certificate");
            let names = tls::names(certificate, mtls).ok_or_else(unread);
            link.certificate = Some(Arc::new(names.map_err(|error| Unopened::Tls(error, None))?));
        }
        Ok(opened(Line::secured(secured), peer, place, link, Some(terms.demand)))
    }
}

fn opened(
    line: Line,
    peer: Peer,
    place: Place,
    link: Link,
    demand: Option<watch::Receiver<Demand>>,
) -> (Opened, Place) {
    let (is_restricted, limit) = (place.is_restricted(), place.limit());
    let remembered = Some(Arc::default());
    let visitor = Visitor { peer, link, is_restricted, limit, remembered, stream: None };
    (Opened { line, visitor, first_line: None, demand }, place)
}

/// Reads the first line of a connection that another server forwards.
async fn first_line(wire: &Wire) -> io::Result<Option<Vec<u8>>> {
    let Some(stream) = wire.socket().tcp() else { return Ok(None) };
    let mut first = [0];
    let is_passed_on = stream.peek(&mut first).await? == 1 && FORWARDED.starts_with(&first);
    if !is_passed_on {
        return Ok(None);
    }
    proxy_header::line(stream, FORWARDED_BYTES_MAX).await.map(Some)
}

/// Reads the PROXY header, and replaces the slot by one for the client's address.
async fn believe_header(wire: &Wire, peer: Peer, place: Place) -> Result<(Peer, Place), Unopened> {
    let Some(stream) = wire.socket().tcp() else { return Ok((peer, place)) };
    let source = proxy_header::read(stream).await.map_err(Unopened::ProxyHeader)?;
    let Some(source) = source else { return Ok((peer, place)) };
    let peer = Peer::Address(source);
    let places = place.places().clone();
    drop(place);
    let place = places.enter(peer).map_err(|_| Unopened::Shed)?;
    Ok((peer, place))
}
