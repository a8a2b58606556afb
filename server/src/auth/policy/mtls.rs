//! Client certificates: whose they may be, and what their owners are called.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};

use super::key::hex;
use crate::auth::Principal;
use crate::door::CertificateNames;

/// What the principals of certificates begin with.
pub(super) const OF_CERTIFICATES: &str = "mtls:";

/// What `[mtls]` says.
#[derive(Debug)]
pub(crate) struct Mtls {
    roots: Arc<RootCertStore>,
    principal: Named,
    is_required: bool,
    id: Arc<str>,
}

/// By which of its names the owner of a certificate is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Named {
    Dns,
    Uri,
    /// By none: a certificate lets a client connect and says nothing of who asks.
    Nobody,
}

impl Named {
    pub(super) fn parse(word: &str) -> Result<Self, String> {
        match word {
            "dns" => Ok(Self::Dns),
            "uri" => Ok(Self::Uri),
            "none" => Ok(Self::Nobody),
            other => Err(format!("principal: unknown {other:?}; allowed: dns, uri, none")),
        }
    }
}

impl Mtls {
    /// From the text of the file with the CA. Unless said otherwise a certificate is required only if it is worth
    /// nothing else.
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
        let is_required = is_required.unwrap_or(principal == Named::Nobody);
        let mut hasher = Sha256::new();
        hasher.update(format!("{principal:?} {is_required} "));
        hasher.update(pem);
        let hash: [u8; 32] = hasher.finalize().into();
        let id = format!("{OF_CERTIFICATES}{}", &hex(&hash)[..16]).into();
        Ok(Self { roots: Arc::new(roots), principal, is_required, id })
    }

    /// Who may sign certificates of clients.
    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        self.roots.clone()
    }

    /// By which of their names clients are called.
    pub(super) fn named(&self) -> Named {
        self.principal
    }

    /// Is whoever shows no certificate turned away?
    pub(crate) fn is_required(&self) -> bool {
        self.is_required
    }

    /// Another for everything else that could be said here. Who was let in by one is not by another.
    pub(crate) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Whose certificate this is, if it says who asks at all.
    pub(crate) fn principal(&self, names: &CertificateNames) -> Result<Option<Principal>, String> {
        if names.mtls_id != self.id {
            return Err(DISTRUSTED.into());
        }
        let (kind, found, n_malformed) = match self.principal {
            Named::Nobody => return Ok(None),
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

/// Whoever has a certificate that was good when they connected.
pub(crate) const EXPIRED: &str =
    "the client certificate has expired; connect again with one that has not";

/// Whoever was let in by a certificate whose CA is not trusted any more.
pub(crate) const DISTRUSTED: &str =
    "the client certificate is not trusted any more: the CA of [mtls] has changed; connect again";
