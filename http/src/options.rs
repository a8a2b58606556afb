//! Settings of connections.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

/// Settings of connections.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of worker threads; 0 for one per processor.
    pub workers: usize,
    /// Maximum connections. Beyond it, idle connections are closed; if none is idle, new connections are restricted.
    pub connections_max: usize,
    /// Maximum restricted connections. Further ones wait for a free slot.
    pub connections_reserved: usize,
    /// Maximum connections from one address, or from one IPv6 /64 network.
    pub connections_per_peer_max: usize,
    /// Networks without this limit, in addition to the trusted proxies.
    pub connections_per_peer_exempt: Arc<[IpNet]>,
    /// Time limit for a restricted connection to send a request.
    pub restricted_timeout: Duration,
    /// Maximum connections that linger after their last response, so that their clients get it. Further ones are closed
    /// immediately.
    pub lingering_max: usize,
    /// Maximum concurrent HTTP/2 requests on all connections.
    pub streams_max: usize,
    /// Maximum concurrent HTTP/2 requests of one principal or, for anonymous clients, of one address.
    pub principal_streams_max: usize,
    /// How long a client can be silent without answering TCP keep-alive probes.
    pub keepalive_timeout: Duration,
    /// Time limit for the TLS handshake and the PROXY header.
    pub handshake_timeout: Duration,
    /// Maximum handshakes in progress. Beyond it, the oldest one is closed.
    pub handshakes_max: usize,
    /// Maximum size of an HTTP/1 request head; at least 8 KiB.
    pub head_bytes_max: usize,
    /// Maximum bytes of all buffers for request heads, beyond 16 KiB per connection.
    pub heads_total_bytes_max: usize,
    /// Time limit for the head of a request, from its first byte; for the first request, from the start of the
    /// connection.
    pub header_timeout: Duration,
    /// Maximum time of a connection without a request.
    pub idle_timeout: Duration,
    /// Time limit for a request body.
    pub body_timeout: Duration,
    /// Maximum size of a request body.
    pub body_bytes_max: usize,
    /// How long a client can read nothing of a long response.
    pub answer_timeout: Duration,
    /// Maximum bytes of long responses in progress, on all connections.
    pub answers_bytes_max: usize,
    /// Maximum bytes of long responses of one principal or, for anonymous clients, of one address.
    pub principal_answers_bytes_max: usize,
    /// Maximum concurrent uploads. Derived from the limit of open files.
    pub uploads_max: usize,
    /// Maximum concurrent downloads.
    pub downloads_max: usize,
    /// Maximum concurrent downloads of one principal or, for anonymous clients, of one address.
    pub principal_downloads_max: usize,
    /// Maximum concurrent copies, and moves and removals of folders.
    pub tree_operations_max: usize,
    /// Maximum concurrent folder operations of one principal or, for anonymous clients, of one address.
    pub principal_tree_operations_max: usize,
    /// Maximum event streams on all connections.
    pub event_streams_max: usize,
    /// Maximum event streams of one principal or, for anonymous clients, of one address.
    pub principal_event_streams_max: usize,
    /// Maximum namespaces that `/metrics` lists separately; 0 lists none.
    pub metrics_namespaces_max: usize,
    /// Whether the metrics listener, which needs no credential, shows namespace names.
    pub metrics_listen_namespaces: bool,
    /// Host names of this server, in addition to IP addresses and `localhost`.
    pub hosts: Arc<[String]>,
    /// The origins whose pages are allowed to send requests.
    pub cors_origins: Arc<[String]>,
    /// The proxies that are trusted to report how clients reached them.
    pub trusted_proxies: Arc<[IpNet]>,
    /// The load balancers that send a PROXY protocol header on every connection.
    pub proxy_protocol_from: Arc<[IpNet]>,
    /// The file mode of Unix sockets, which decides who can connect.
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

    /// Returns whether the number of connections from this address is unlimited.
    fn is_exempt(&self, peer: IpAddr) -> bool {
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

/// Returns the unit that counts as one client: an IPv4 address, or the IPv6 /64 network that a customer of a provider
/// has at least.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

/// Returns whether the address is in one of the networks. A server that listens on IPv6 sees IPv4 clients under IPv6
/// addresses, which are converted.
pub(super) fn is_in(networks: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    networks.iter().any(|network| network.contains(&address))
}
