//! How a connection reached the server, as known before a request is read.

use std::path::Path;
use std::sync::Arc;

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

/// The subject alternative names of a client's certificate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CertificateNames {
    /// Host names.
    pub dns: Vec<String>,
    /// URIs, as SPIFFE uses them.
    pub uris: Vec<String>,
    /// Number of further DNS names that are malformed.
    pub n_malformed_dns: usize,
    /// Number of further URIs that are malformed.
    pub n_malformed_uris: usize,
    /// When the certificate expires, in epoch milliseconds.
    pub ends_ms: i64,
    /// The id of the `[mtls]` settings under which the certificate was checked.
    pub mtls_id: Arc<str>,
}

impl CertificateNames {
    /// Returns the number of malformed names.
    pub fn n_malformed(&self) -> usize {
        self.n_malformed_dns + self.n_malformed_uris
    }

    /// Returns whether the certificate has this name.
    pub fn has(&self, name: &str) -> bool {
        self.dns.iter().chain(&self.uris).any(|own| own == name)
    }
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
    pub fn is_unix(&self) -> bool {
        self.unix_path.is_some()
    }
}
