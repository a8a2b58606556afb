//! How a connection reached the server: what can be known of it before a request is read.

use std::path::Path;
use std::sync::Arc;

/// How a connection reached the server. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// It is encrypted.
    pub is_tls: bool,
    /// The path of the Unix socket it came by; `None`: by TCP.
    pub unix_path: Option<Arc<Path>>,
    /// The names in the client's certificate, which a CA of `[mtls]` has signed; `None`: it showed none.
    pub certificate: Option<Arc<CertificateNames>>,
    /// Where it comes from is what a header of the PROXY protocol says: true, but not where its bytes come from.
    pub is_relayed: bool,
    /// It came by the listener that only answers `/metrics` and health checks.
    pub is_for_metrics: bool,
    /// It came by the listener for the other servers of a shared store.
    pub is_for_peers: bool,
}

/// The subject alternative names of a client's certificate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CertificateNames {
    /// Host names.
    pub dns: Vec<String>,
    /// URIs, as SPIFFE uses them.
    pub uris: Vec<String>,
    /// How many more DNS names there are that no host can have.
    pub n_malformed_dns: usize,
    /// How many more URIs there are that are none.
    pub n_malformed_uris: usize,
    /// When the certificate ends, in epoch milliseconds.
    pub ends_ms: i64,
    /// What `[mtls]` said when the certificate was checked.
    pub mtls_id: Arc<str>,
}

impl CertificateNames {
    /// How many of them say nothing.
    pub fn n_malformed(&self) -> usize {
        self.n_malformed_dns + self.n_malformed_uris
    }

    /// Is this one of them?
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

    /// Is it a Unix socket of this machine?
    pub fn is_unix(&self) -> bool {
        self.unix_path.is_some()
    }
}
