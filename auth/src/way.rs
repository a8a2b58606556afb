//! How a request reached the server, as far as this matters for authentication.

use std::net::IpAddr;
use std::path::Path;

use super::{CertificateNames, Remembered};

/// How a request reached the server: address, socket, certificate and browser context.
pub struct Way<'a> {
    /// The client's address; for a Unix socket, the loopback address.
    pub address: IpAddr,
    /// Whether `address` comes from a PROXY protocol header.
    pub is_relayed: bool,
    /// The path of the Unix socket that received the request.
    pub unix_path: Option<&'a Path>,
    /// The names in the client's certificate, if it sent one.
    pub certificate: Option<&'a CertificateNames>,
    /// Whether the request was protected on its way: TLS, the local machine, or a trusted proxy that reports HTTPS.
    pub is_private: bool,
    /// Whether a page of another, allowed origin sent the request. Cookies that the browser attached are then ignored.
    pub is_of_other_page: bool,
    /// The caller cached for this connection; `None` if callers are not cached.
    pub remembered: Option<&'a Remembered>,
}

impl Way<'_> {
    pub(super) fn is_unix(&self) -> bool {
        self.unix_path.is_some()
    }
}
