//! Settings of connections.

use clap::Args as ClapArgs;
use leasehold_server::http;

use crate::duration::DurationArg;

/// The smallest read buffer of a connection.
const HEAD_BYTES_MIN: usize = 8192;

#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Connections")]
pub(super) struct ConnectionArgs {
    /// Threads that serve connections; 0: one per processor.
    #[arg(long, env = "LEASEHOLD_WORKERS", default_value_t = 0,
          value_parser = clap::value_parser!(u16).range(..=1024))]
    workers: u16,
    /// Maximum connections. If there are more, idle ones are closed. If none is idle, new ones are restricted to health
    /// checks, renewals and releases.
    #[arg(long, env = "LEASEHOLD_CONNECTIONS_MAX", default_value_t = 10_000)]
    pub(super) connections_max: usize,
    /// Maximum restricted connections, in addition to connections-max. More wait until there is a place.
    #[arg(long, env = "LEASEHOLD_CONNECTIONS_RESERVED", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..))]
    connections_reserved: u32,
    /// Maximum connections from one IPv4 address or one IPv6 /64 network. More are restricted.
    #[arg(long, env = "LEASEHOLD_CONNECTIONS_PER_PEER_MAX", default_value_t = 1000)]
    connections_per_peer_max: usize,
    /// Addresses or networks to which connections-per-peer-max does not apply. It does not apply to trusted proxies
    /// either.
    #[arg(long, env = "LEASEHOLD_CONNECTIONS_PER_PEER_EXEMPT", value_delimiter = ',',
          value_parser = http::parse_network, default_value = "127.0.0.0/8,::1")]
    connections_per_peer_exempt: Vec<http::IpNet>,
    /// Maximum time without a request on a restricted connection.
    #[arg(long, env = "LEASEHOLD_RESTRICTED_TIMEOUT", default_value = "1s")]
    restricted_timeout: DurationArg,
    /// Maximum connections that the server keeps for up to 5 seconds after the last response, in addition to
    /// connections-max, so that a client that is still sending gets the response; at most a quarter for one address.
    /// Further connections are closed immediately.
    #[arg(long, env = "LEASEHOLD_LINGERING_MAX", default_value_t = 500)]
    lingering_max: usize,
    /// Maximum HTTP/2 requests in progress, over all connections. More are restricted.
    #[arg(long, env = "LEASEHOLD_STREAMS_MAX", default_value_t = 20_000)]
    streams_max: usize,
    /// Maximum HTTP/2 requests in progress of one principal; for anonymous clients, of one address that is not in
    /// connections-per-peer-exempt. More are restricted.
    #[arg(long, env = "LEASEHOLD_PRINCIPAL_STREAMS_MAX", default_value_t = 5_000)]
    principal_streams_max: usize,
    /// How long a client's host can be unreachable before its connection is closed and its waiters leave their queues.
    #[arg(long, env = "LEASEHOLD_KEEPALIVE_TIMEOUT", default_value = "30s")]
    keepalive_timeout: DurationArg,
    /// Maximum size of an HTTP/1 request head (request line and headers), in bytes; larger ones are refused with 431.
    #[arg(long, env = "LEASEHOLD_HEAD_BYTES_MAX", default_value_t = 65_536)]
    head_bytes_max: usize,
    /// Maximum bytes of all buffers for request heads, beyond 16 KiB per connection, and of incomplete HTTP/2 request
    /// bodies. If they need more, the connections that have been receiving or idle the longest are closed.
    #[arg(long, env = "LEASEHOLD_HEADS_TOTAL_BYTES_MAX", default_value_t = 64 << 20)]
    pub(super) heads_total_bytes_max: usize,
    /// Time limit for the head of a request, from its first byte; for the first request, from the start of the
    /// connection.
    #[arg(long, env = "LEASEHOLD_HEADER_TIMEOUT", default_value = "10s")]
    pub(super) header_timeout: DurationArg,
    /// Maximum time without a request on a connection.
    #[arg(long, env = "LEASEHOLD_IDLE_TIMEOUT", default_value = "2m")]
    idle_timeout: DurationArg,
    /// Time limit for the body of a request.
    #[arg(long, env = "LEASEHOLD_BODY_TIMEOUT", default_value = "30s")]
    pub(super) body_timeout: DurationArg,
    /// Maximum size of a request body, in bytes.
    #[arg(long, env = "LEASEHOLD_BODY_BYTES_MAX", default_value_t = 65_536)]
    pub(super) body_bytes_max: usize,
    /// Maximum time in which a client takes nothing of a long response or a file.
    #[arg(long, env = "LEASEHOLD_ANSWER_TIMEOUT", default_value = "30s")]
    pub(super) answer_timeout: DurationArg,
    /// Maximum bytes of long or large responses that are being sent at the same time; more are refused with 503.
    #[arg(long, env = "LEASEHOLD_ANSWERS_BYTES_MAX", default_value_t = 64 << 20)]
    answers_bytes_max: usize,
    /// Maximum bytes of long responses to one principal; for anonymous clients, to one address that is not in
    /// connections-per-peer-exempt. More are refused with 429.
    #[arg(long, env = "LEASEHOLD_PRINCIPAL_ANSWERS_BYTES_MAX", default_value_t = 16 << 20)]
    principal_answers_bytes_max: usize,
    /// Maximum files that are sent at the same time, in every protocol; more are refused with 503.
    #[arg(long, env = "LEASEHOLD_DOWNLOADS_MAX", default_value_t = 1_000)]
    pub(super) downloads_max: usize,
    /// Maximum files that are sent to one principal at the same time; for anonymous clients, to one address that is not
    /// in connections-per-peer-exempt. More are refused with 429.
    #[arg(long, env = "LEASEHOLD_PRINCIPAL_DOWNLOADS_MAX", default_value_t = 250)]
    pub(super) principal_downloads_max: usize,
    /// Maximum WebDAV requests that copy, or that move or remove a folder, at the same time; more are refused with 503.
    /// With fewer than 8, other file operations always have a thread.
    #[arg(long, env = "LEASEHOLD_TREE_OPERATIONS_MAX", default_value_t = 7)]
    pub(super) tree_operations_max: usize,
    /// Maximum such requests of one principal; for anonymous clients, of one address that is not in
    /// connections-per-peer-exempt. More are refused with 429.
    #[arg(long, env = "LEASEHOLD_PRINCIPAL_TREE_OPERATIONS_MAX", default_value_t = 2)]
    pub(super) principal_tree_operations_max: usize,
    /// Maximum event streams at the same time; more are refused with 503.
    #[arg(long, env = "LEASEHOLD_EVENT_STREAMS_MAX", default_value_t = 10_000)]
    event_streams_max: usize,
    /// Maximum event streams of one principal; for anonymous clients, of one address that is not in
    /// connections-per-peer-exempt. More are refused with 429.
    #[arg(long, env = "LEASEHOLD_PRINCIPAL_EVENT_STREAMS_MAX", default_value_t = 2_500)]
    principal_event_streams_max: usize,
    /// Maximum bytes of events that streams have not taken yet; beyond it, slow streams miss events and get a `gap`.
    #[arg(long, env = "LEASEHOLD_EVENT_STREAMS_BYTES_MAX", default_value_t = 64 << 20)]
    pub(super) event_streams_bytes_max: usize,
    /// Addresses or networks of proxies whose `Forwarded` and `X-Forwarded-*` headers the server trusts.
    #[arg(long, env = "LEASEHOLD_TRUSTED_PROXIES", value_delimiter = ',', value_parser = http::parse_network)]
    trusted_proxies: Vec<http::IpNet>,
}

impl ConnectionArgs {
    pub(super) fn options(&self) -> http::Options {
        http::Options {
            workers: self.workers.into(),
            connections_max: self.connections_max,
            connections_reserved: self.connections_reserved as usize,
            connections_per_peer_max: self.connections_per_peer_max,
            connections_per_peer_exempt: self.connections_per_peer_exempt.as_slice().into(),
            restricted_timeout: self.restricted_timeout.0,
            lingering_max: self.lingering_max,
            streams_max: self.streams_max,
            principal_streams_max: self.principal_streams_max,
            keepalive_timeout: self.keepalive_timeout.0,
            head_bytes_max: self.head_bytes_max,
            heads_total_bytes_max: self.heads_total_bytes_max,
            header_timeout: self.header_timeout.0,
            idle_timeout: self.idle_timeout.0,
            body_timeout: self.body_timeout.0,
            body_bytes_max: self.body_bytes_max,
            answer_timeout: self.answer_timeout.0,
            answers_bytes_max: self.answers_bytes_max,
            principal_answers_bytes_max: self.principal_answers_bytes_max,
            downloads_max: self.downloads_max,
            principal_downloads_max: self.principal_downloads_max,
            tree_operations_max: self.tree_operations_max,
            principal_tree_operations_max: self.principal_tree_operations_max,
            event_streams_max: self.event_streams_max,
            principal_event_streams_max: self.principal_event_streams_max,
            trusted_proxies: self.trusted_proxies.as_slice().into(),
            ..http::Options::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.head_bytes_max < HEAD_BYTES_MIN {
            let n = self.head_bytes_max;
            return Err(format!("--head-bytes-max: must be at least {HEAD_BYTES_MIN}, got {n}"));
        }
        // Linux counts keep-alive probes in whole seconds, and several of them have to fail.
        let allowed = 3..=24 * 3600;
        if allowed.contains(&self.keepalive_timeout.0.as_secs()) {
            return Ok(());
        }
        let timeout = self.keepalive_timeout;
        Err(format!("--keepalive-timeout: must be from 3s to 24h, got {timeout}"))
    }
}
