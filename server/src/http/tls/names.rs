//! The names in a client's certificate.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::auth::Mtls;
use crate::door::CertificateNames;

/// Of a certificate that was verified. `None`: it cannot be read, which does not happen after it was verified.
pub(in crate::http) fn names(
    certificate: &CertificateDer<'_>,
    mtls: &Mtls,
) -> Option<CertificateNames> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    Some(CertificateNames {
        dns: certificate.valid_dns_names().map(str::to_owned).collect(),
        uris: certificate.valid_uri_names().map(str::to_owned).collect(),
        mtls_id: mtls.id().into(),
    })
}
