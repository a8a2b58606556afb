//! The connection that a request came by.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use leasehold_auth::Remembered;

use super::Link;
use crate::Stream;

/// The remote end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// A client in the network.
    Address(IpAddr),
    /// A local client, connected to a Unix socket.
    Unix,
}

impl Peer {
    /// A local client, at the loopback address.
    pub const LOCAL: Self = Self::Address(IpAddr::V4(Ipv4Addr::LOCALHOST));

    /// Returns the address of the peer. For a Unix socket it is the loopback address.
    pub fn address(self) -> IpAddr {
        match self {
            Peer::Address(address) => address,
            Peer::Unix => Ipv4Addr::LOCALHOST.into(),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Address(address) => address.fmt(f),
            Peer::Unix => f.write_str("unix"),
        }
    }
}

/// The connection-level facts about a request: where it comes from and how it is limited.
#[derive(Clone, Debug)]
pub struct Visitor {
    /// The remote end of the connection.
    pub peer: Peer,
    /// How the connection reached the server.
    pub link: Link,
    /// Whether a connection limit was exceeded. Only renewals, releases and health checks are then served.
    pub is_restricted: bool,
    /// The setting whose limit was exceeded, if it was one.
    pub limit: Option<&'static str>,
    /// The cached caller of the connection; `None` if callers are not cached.
    pub remembered: Option<Arc<Remembered>>,
    /// The HTTP/2 stream, if the request shares its connection with others.
    pub stream: Option<Stream>,
}

impl Visitor {
    /// A local client without limits.
    pub const LOCAL: Self = Self {
        peer: Peer::LOCAL,
        link: Link::PLAIN,
        is_restricted: false,
        limit: None,
        remembered: None,
        stream: None,
    };
}
