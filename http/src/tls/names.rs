//! The names in a client's certificate.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use super::der;
use leasehold_auth::{CertificateNames, Mtls};

/// Returns the names in a verified certificate; `None` if it cannot be parsed, which cannot happen after verification.
pub(crate) fn names(certificate: &CertificateDer<'_>, mtls: &Mtls) -> Option<CertificateNames> {
    let said = der::read(certificate)?;
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let is_uri = |uri: &&str| !uri.is_empty() && uri.bytes().all(|byte| byte.is_ascii_graphic());
    let dns: Vec<_> = certificate.valid_dns_names().map(str::to_owned).collect();
    let uris: Vec<_> = certificate.valid_uri_names().filter(is_uri).map(str::to_owned).collect();
    Some(CertificateNames {
        n_malformed_dns: said.n_dns.saturating_sub(dns.len()),
        n_malformed_uris: said.n_uris.saturating_sub(uris.len()),
        dns,
        uris,
        ends_ms: said.ends_ms,
        mtls_id: mtls.id().clone(),
    })
}
