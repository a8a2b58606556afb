//! How a request came, as far as that says something of who asks.

use std::net::IpAddr;
use std::path::Path;

use super::Remembered;
use crate::door::CertificateNames;

/// How a request came.
pub(crate) struct Way<'a> {
    /// From where; for a Unix socket, this machine.
    pub(crate) address: IpAddr,
    /// That is what a header of the PROXY protocol says.
    pub(crate) is_relayed: bool,
    /// The path of the Unix socket it came by.
    pub(crate) unix_path: Option<&'a Path>,
    /// The names in the certificate of the other end, if it showed one.
    pub(crate) certificate: Option<&'a CertificateNames>,
    /// Nobody on the way could read or change it: TLS, this machine, or a trusted proxy that says so.
    pub(crate) is_private: bool,
    /// A page of another origin asks that may: what a browser adds by itself is not its own.
    pub(crate) is_of_other_page: bool,
    /// Who the last request of its connection was from; `None`: nobody remembers.
    pub(crate) remembered: Option<&'a Remembered>,
}

impl Way<'_> {
    pub(super) fn is_unix(&self) -> bool {
        self.unix_path.is_some()
    }
}
