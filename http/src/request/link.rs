//! How a connection reached the server, as known before a request is read.

use std::path::Path;
use std::sync::Arc;

use leasehold_auth::CertificateNames;

/// How a connection reached the server. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Whether the connection uses TLS.
    pub is_tls: bool,
    /// The path of the Unix socket; `None` for TCP.
    pub unix_path: Option<Arc<Path>>,
    /// The names in the client's certificate, which a CA of `[mtls]` has signed; `None` without a certificate.
    pub certificate: Option<Arc<CertificateNames>>,
    /// Whether the client's address comes from a PROXY protocol header. The address is trusted, but it is not the
    /// socket's remote address.
    pub is_relayed: bool,
    /// Whether it reached the metrics listener, which serves only `/metrics` and health checks.
    pub is_for_metrics: bool,
    /// Whether it reached the peer listener of the cluster.
    pub is_for_peers: bool,
}

impl Link {
    /// Plain HTTP over TCP.
    pub const PLAIN: Self = Self {
        is_tls: false,
        unix_path: None,
        certificate: None,
        is_relayed: false,
        is_for_metrics: false,
        is_for_peers: false,
    };

    /// Returns whether the connection uses a Unix socket.
    #[inline]
    pub fn is_unix(&self) -> bool {
        self.unix_path.is_some()
    }
}
