//! Describes to the leader where a forwarded request came from and how.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::http::HeaderValue;
use leasehold_auth::CertificateNames;
use serde::{Deserialize, Serialize};

use crate::http::request::{Link, Peer, Visitor};

/// How a request reached the server that forwards it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Hop {
    /// The client's address; `None` for a Unix socket.
    from: Option<IpAddr>,
    /// Whether the client's connection used TLS.
    #[serde(default, skip_serializing_if = "is_no")]
    tls: bool,
    /// The path of the Unix socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unix: Option<PathBuf>,
    /// Whether the address comes from a PROXY protocol header.
    #[serde(default, skip_serializing_if = "is_no")]
    relayed: bool,
    /// Whether a connection limit was exceeded.
    #[serde(default, skip_serializing_if = "is_no")]
    restricted: bool,
    /// The names in the client's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<Certificate>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Certificate {
    dns: Vec<String>,
    uris: Vec<String>,
    malformed_dns: usize,
    malformed_uris: usize,
    ends_ms: i64,
    mtls: String,
}

fn is_no(is_so: &bool) -> bool {
    !is_so
}

impl Hop {
    pub(super) fn of(visitor: &Visitor) -> Self {
        let Visitor { peer, link, is_restricted, .. } = visitor;
        let certificate = link.certificate.as_deref().map(|names| Certificate {
            dns: names.dns.clone(),
            uris: names.uris.clone(),
            malformed_dns: names.n_malformed_dns,
            malformed_uris: names.n_malformed_uris,
            ends_ms: names.ends_ms,
            mtls: names.mtls_id.to_string(),
        });
        Self {
            from: match peer {
                Peer::Address(address) => Some(*address),
                Peer::Unix => None,
            },
            tls: link.is_tls,
            unix: link.unix_path.as_deref().map(Path::to_owned),
            relayed: link.is_relayed,
            restricted: *is_restricted,
            certificate,
        }
    }

    /// Removes the certificate, which must not be sent over an unprotected connection.
    pub(super) fn uncertified(self) -> Self {
        Self { certificate: None, ..self }
    }

    pub(super) fn encode(&self) -> HeaderValue {
        let text = serde_json::to_vec(self).unwrap_or_default();
        // JSON contains control characters only in escaped form.
        HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("?"))
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Returns the client as if it had connected to this server.
    pub(super) fn visitor(self) -> Visitor {
        let Self { from, tls, unix, relayed, restricted, certificate } = self;
        let certificate = certificate.map(|names| CertificateNames {
            dns: names.dns,
            uris: names.uris,
            n_malformed_dns: names.malformed_dns,
            n_malformed_uris: names.malformed_uris,
            ends_ms: names.ends_ms,
            mtls_id: names.mtls.into(),
        });
        let link = Link {
            is_tls: tls,
            unix_path: unix.map(Into::into),
            certificate: certificate.map(Arc::new),
            is_relayed: relayed,
            is_for_metrics: false,
            is_for_peers: false,
        };
        let peer = from.map_or(Peer::Unix, Peer::Address);
        Visitor {
            peer,
            link,
            is_restricted: restricted,
            limit: None,
            remembered: None,
            stream: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forwarded_client_keeps_its_identity() {
        let names = CertificateNames {
            dns: vec!["a.example".into()],
            uris: vec!["spiffe://a/b".into()],
            n_malformed_uris: 2,
            ends_ms: 7,
            mtls_id: "m".into(),
            ..CertificateNames::default()
        };
        let by_tls = Link { is_tls: true, certificate: Some(Arc::new(names)), ..Link::PLAIN };
        let by_unix = Link { unix_path: Some(Path::new("/run/ü.sock").into()), ..Link::PLAIN };
        let remote = Peer::Address("2001:db8::1".parse().expect("an address"));
        for (peer, link, is_restricted) in [
            (Peer::LOCAL, Link::PLAIN, false),
            (remote, by_tls, true),
            (Peer::Unix, by_unix, false),
            (remote, Link { is_relayed: true, ..Link::PLAIN }, false),
        ] {
            let visitor = Visitor { peer, link, is_restricted, ..Visitor::LOCAL };
            let sent = Hop::of(&visitor).encode();
            let came = Hop::decode(sent.as_bytes()).expect("a hop").visitor();
            assert_eq!(
                (came.peer, came.link, came.is_restricted),
                (visitor.peer, visitor.link, visitor.is_restricted)
            );
        }
        assert_eq!(Hop::decode(b"{"), None);
    }
}
