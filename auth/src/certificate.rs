//! The names that a client's certificate proves.

use std::sync::Arc;

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
