//! What connections may do.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use super::forwarded::is_in;
use super::places::network;

/// What a connection may do.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many threads serve connections; 0: as many as there are processors.
    pub workers: usize,
    /// Most connections at once. If there are more, idle ones are closed; if none is idle, the new ones are
    /// restricted.
    pub connections_max: usize,
    /// Most restricted connections. More wait until there is a place.
    pub connections_reserved: usize,
    /// Most connections from one address, or from one IPv6 network of 64 bits.
    pub connections_per_peer_max: usize,
    /// Who may have more, beside the trusted proxies.
    pub connections_per_peer_exempt: Arc<[IpNet]>,
    /// How long a restricted connection may take to send a request, or stay without one.
    pub restricted_timeout: Duration,
    /// Maximum connections that are answered and read for a while, so that their clients get the response. More are
    /// closed without that.
    pub lingering_max: usize,
    /// Most HTTP/2 requests in progress, over all connections.
    pub streams_max: usize,
    /// Maximum of one principal; for anonymous clients, of one address.
    pub principal_streams_max: usize,
    /// How long a client may be silent that does not even answer its system's probes.
    pub keepalive_timeout: Duration,
    /// How long the handshake of TLS and the PROXY header may take.
    pub handshake_timeout: Duration,
    /// Most handshakes under way. If there are more, the one that takes longest is given up.
    pub handshakes_max: usize,
    /// Maximum size of an HTTP/1 request head; at least 8 KiB.
    pub head_bytes_max: usize,
    /// Maximum bytes of all buffers for request heads, beyond 16 KiB per connection.
    pub heads_total_bytes_max: usize,
    /// Time limit for the head of a request, from its first byte; for the first request, from the start of the
    /// connection.
    pub header_timeout: Duration,
    /// How long a connection may stay without a request.
    pub idle_timeout: Duration,
    /// How long a request's body may take.
    pub body_timeout: Duration,
    /// Largest request body.
    pub body_bytes_max: usize,
    /// How long a client may take nothing of a long answer.
    pub answer_timeout: Duration,
    /// Most bytes of long answers that are being sent, over all connections.
    pub answers_bytes_max: usize,
    /// Maximum of one principal; for anonymous clients, of one address.
    pub principal_answers_bytes_max: usize,
    /// Maximum files that are written at the same time; set from the limit of open files.
    pub uploads_max: usize,
    /// Maximum files that are sent at the same time.
    pub downloads_max: usize,
    /// Maximum of one principal; for anonymous clients, of one address.
    pub principal_downloads_max: usize,
    /// Maximum copies, and moves and removals of folders, at the same time.
    pub tree_operations_max: usize,
    /// Maximum of one principal; for anonymous clients, of one address.
    pub principal_tree_operations_max: usize,
    /// Most streams of events, over all connections.
    pub event_streams_max: usize,
    /// Maximum of one principal; for anonymous clients, of one address.
    pub principal_event_streams_max: usize,
    /// Most namespaces that metrics tell of one by one; 0: none.
    pub metrics_namespaces_max: usize,
    /// Whether the metrics listener, which needs no credential, shows namespace names.
    pub metrics_listen_namespaces: bool,
    /// The names this server is reached by, beside its addresses and `localhost`.
    pub hosts: Arc<[String]>,
    /// The origins whose pages may ask this server.
    pub cors_origins: Arc<[String]>,
    /// Who is believed when it says how a client reached it.
    pub trusted_proxies: Arc<[IpNet]>,
    /// The load balancers that begin every connection with a header of the PROXY protocol.
    pub proxy_protocol_from: Arc<[IpNet]>,
    /// Who may connect to a Unix socket, as the rights of its file.
    pub unix_socket_mode: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: 0,
            connections_max: 10_000,
            connections_reserved: 100,
            connections_per_peer_max: 1000,
            connections_per_peer_exempt: [
                IpNet::new_assert(Ipv4Addr::new(127, 0, 0, 0).into(), 8),
                IpNet::from(IpAddr::from(Ipv6Addr::LOCALHOST)),
            ]
            .into(),
            restricted_timeout: Duration::from_secs(1),
            lingering_max: 500,
            streams_max: 20_000,
            principal_streams_max: 5_000,
            keepalive_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(5),
            handshakes_max: 1000,
            head_bytes_max: 64 * 1024,
            heads_total_bytes_max: 64 << 20,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
            body_timeout: Duration::from_secs(30),
            body_bytes_max: 64 * 1024,
            answer_timeout: Duration::from_secs(30),
            answers_bytes_max: 64 << 20,
            principal_answers_bytes_max: 16 << 20,
            uploads_max: 10_000,
            downloads_max: 1_000,
            principal_downloads_max: 250,
            tree_operations_max: 7,
            principal_tree_operations_max: 2,
            event_streams_max: 10_000,
            principal_event_streams_max: 2_500,
            metrics_namespaces_max: 100,
            metrics_listen_namespaces: false,
            hosts: Arc::default(),
            cors_origins: Arc::default(),
            trusted_proxies: Arc::default(),
            proxy_protocol_from: Arc::default(),
            unix_socket_mode: 0o660,
        }
    }
}

impl Options {
    /// Returns the network that anonymous clients of this address are counted in; `None` if it is exempt.
    pub fn network_of(&self, address: IpAddr) -> Option<IpAddr> {
        (!self.is_exempt(address)).then(|| network(address))
    }

    /// Is the number of connections from this address unlimited?
    pub fn is_exempt(&self, peer: IpAddr) -> bool {
        let Self { connections_per_peer_exempt, trusted_proxies, proxy_protocol_from, .. } = self;
        let exempt = [connections_per_peer_exempt, trusted_proxies, proxy_protocol_from];
        exempt.into_iter().any(|networks| is_in(networks, peer))
    }

    /// Returns the number of threads that serve connections.
    pub fn n_workers(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, NonZero::get),
            n => n,
        }
    }
}
