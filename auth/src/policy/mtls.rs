//! Client certificates (`[mtls]`): which CAs are trusted, and how principals are named.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};

use super::key::hex;
use crate::{CertificateNames, Principal};

/// Prefix of the principal names of certificates.
pub(super) const OF_CERTIFICATES: &str = "mtls:";

/// The `[mtls]` section of the auth file.
#[derive(Debug)]
pub struct Mtls {
    roots: Arc<RootCertStore>,
    principal: Named,
    is_required: bool,
    id: Arc<str>,
}

/// Which subject alternative name of a certificate becomes the principal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Named {
    Dns,
    Uri,
    /// None: a certificate permits a client to connect and does not identify it.
    NoPrincipal,
}

impl Named {
    pub(super) fn parse(word: &str) -> Result<Self, String> {
        match word {
            "dns" => Ok(Self::Dns),
            "uri" => Ok(Self::Uri),
            "none" => Ok(Self::NoPrincipal),
            other => Err(format!("principal: unknown {other:?}; allowed: dns, uri, none")),
        }
    }
}

impl Mtls {
    /// Creates the settings from the CA file's text. By default a certificate is required only if it does not identify
    /// clients.
    pub(super) fn new(
        pem: &str,
        principal: Named,
        is_required: Option<bool>,
    ) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        if roots.is_empty() {
            return Err("has no certificate in PEM".into());
        }
        let is_required = is_required.unwrap_or(principal == Named::NoPrincipal);
        let mut hasher = Sha256::new();
        hasher.update(format!("{principal:?} {is_required} "));
        hasher.update(pem);
        let hash: [u8; 32] = hasher.finalize().into();
        let id = format!("{OF_CERTIFICATES}{}", &hex(&hash)[..16]).into();
        Ok(Self { roots: Arc::new(roots), principal, is_required, id })
    }

    /// Returns the CAs that can sign client certificates.
    pub fn roots(&self) -> Arc<RootCertStore> {
        self.roots.clone()
    }

    /// Returns which name of a certificate becomes the principal.
    pub(super) fn named(&self) -> Named {
        self.principal
    }

    /// Returns whether clients without a certificate are rejected.
    pub fn is_required(&self) -> bool {
        self.is_required
    }

    /// Returns a hash of these settings. A connection accepted under other settings is no longer trusted.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Returns the principal of this certificate, or `None` if certificates do not identify clients.
    pub fn principal(&self, names: &CertificateNames) -> Result<Option<Principal>, String> {
        if names.mtls_id != self.id {
            return Err(DISTRUSTED.into());
        }
        let (kind, found, n_malformed) = match self.principal {
            Named::NoPrincipal => return Ok(None),
            Named::Dns => ("DNS name", &names.dns, names.n_malformed_dns),
            Named::Uri => ("URI", &names.uris, names.n_malformed_uris),
        };
        match (&found[..], n_malformed) {
            ([name], 0) if !name.contains('*') => {
                let (name, ends) = (format!("{OF_CERTIFICATES}{name}"), Some(names.ends_ms));
                Ok(Some(Principal::until(name.into(), Vec::new(), self.id.clone(), ends)))
            }
            ([name], 0) => {
                Err(format!("the client certificate is for {name:?}, which is not one {kind}"))
            }
            (found, 0) => Err(format!(
                "the client certificate must have exactly one {kind} as subject alternative name, it has {}",
                found.len()
            )),
            (found, n) => Err(format!(
                "the client certificate must have exactly one {kind} as subject alternative name, it has {}, {n} of \
                 them malformed",
                found.len() + n
            )),
        }
    }
}

/// The error for a connection whose client certificate has expired since the handshake.
pub(crate) const EXPIRED: &str =
    "the client certificate has expired; connect again with a valid one";

/// The error for a connection whose certificate was accepted under other `[mtls]` settings.
pub(crate) const DISTRUSTED: &str =
    "the client certificate is no longer trusted: the CA of [mtls] has changed; connect again";
