//! What comes before the first request: the PROXY header of a load balancer, and the handshake of TLS.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::timeout;

use super::Options;
use super::forwarded::is_in;
use super::handshakes::Handshakes;
use super::line::Line;
use super::lingering::Lingering;
use super::places::Place;
use super::proxy_header;
use super::tls::{self, Demand, Tls};
use super::wire::Wire;
use crate::dialect;
use crate::door::{Link, Peer, Visitor};
use crate::peer::{OPENING, OPENING_BYTES_MAX};

/// A listener, as its connections know it.
pub(crate) struct Port {
    /// What it is encrypted by, if it is.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Of a Unix socket.
    pub(crate) unix_path: Option<Arc<Path>>,
    /// It only answers `/metrics` and health checks.
    pub(crate) is_for_metrics: bool,
    /// It only answers the other servers of a shared store.
    pub(crate) is_for_peers: bool,
    /// Those under way, of all listeners.
    pub(crate) handshakes: Arc<Handshakes>,
    /// The dialect that is spoken there; `None`: HTTP.
    pub(crate) dialect: Option<dialect::Listener>,
}

/// A connection that can be spoken over.
pub(super) struct Opened {
    pub(super) line: Line,
    pub(super) visitor: Visitor,
    /// It was another server's client's, which passes it on.
    pub(super) first_line: Option<Vec<u8>>,
    /// Rings when what is said of the certificates of clients is another; `None`: nobody could show one.
    pub(super) demand: Option<watch::Receiver<Demand>>,
}

/// Why a connection was given up before its first request.
#[derive(Debug)]
pub(super) enum Unopened {
    /// It took too long.
    Timeout,
    /// It had to make room.
    Shed,
    /// Its PROXY header is missing or wrong.
    ProxyHeader(io::Error),
    /// Another server did not say whose it is.
    Peer(io::Error),
    /// TLS did not come about. The connection may linger, so that the client reads why.
    Tls(io::Error, Option<Lingering>),
}

impl Unopened {
    /// As it is counted.
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

impl Port {
    /// Opens a connection, within the time it has.
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
                // In TLS 1.3 the client may be sending its request already. It is to read why that is in vain.
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

/// What a connection of another server begins with, if it passes on one that is not HTTP.
async fn first_line(wire: &Wire) -> io::Result<Option<Vec<u8>>> {
    let Some(stream) = wire.socket().tcp() else { return Ok(None) };
    let mut first = [0];
    let is_passed_on = stream.peek(&mut first).await? == 1 && OPENING.starts_with(&first);
    if !is_passed_on {
        return Ok(None);
    }
    proxy_header::line(stream, OPENING_BYTES_MAX).await.map(Some)
}

/// Whom a load balancer speaks for, with a place of its own.
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
