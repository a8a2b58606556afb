//! TLS: which CAs the client trusts, which certificate it presents, and explanations of failures.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::Error;

/// Which CAs to trust, and which certificate to present.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trust {
    /// The CA certificates to trust, instead of the system's.
    pub(crate) ca_file: Option<PathBuf>,
    /// The client certificate and its key.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
}

/// Returns the TLS settings for all connections. If TLS is not used, no file is read.
pub(crate) fn config(trust: &Trust, http2: bool, is_used: bool) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let unusable = |error: rustls::Error| Error::Invalid(format!("TLS cannot be used: {error}"));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match &trust.ca_file {
        _ if !is_used => builder.with_root_certificates(RootCertStore::empty()),
        Some(file) => builder.with_root_certificates(roots(file)?),
        None => builder.with_platform_verifier().map_err(|error| {
            let why = "cannot read the CA certificates of this system";
            Error::Invalid(format!("{why}: {error}; pass the trusted CAs with --ca-file"))
        })?,
    };
    let mut config = match &trust.client {
        Some((certificate, key)) if is_used => {
            let wrong = |error: rustls::Error| match error {
                rustls::Error::InconsistentKeys(_) => invalid(
                    key,
                    format!(
                        "is not the private key of the certificate in {}",
                        certificate.display()
                    ),
                ),
                error => invalid(certificate, error),
            };
            let (chain, private) = (chain(certificate)?, private(key)?);
            builder.with_client_auth_cert(chain, private).map_err(wrong)?
        }
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    if !http2 {
        config.alpn_protocols.push(b"http/1.1".to_vec());
    }
    Ok(config)
}

fn roots(file: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(file).map_err(of_ca_file)? {
        roots.add(certificate).map_err(|error| of_ca_file(invalid(file, error)))?;
    }
    Ok(roots)
}

/// Adds to an error which setting it is about.
fn of_ca_file(error: Error) -> Error {
    match error {
        Error::Invalid(why) => Error::Invalid(format!("{why} (--ca-file, LEASEHOLD_CA_FILE)")),
        error => error,
    }
}

fn chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = std::fs::read(file).map_err(|error| invalid(file, error))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|error| invalid(file, error))?;
    if chain.is_empty() {
        return Err(invalid(file, "has no certificate in PEM"));
    }
    Ok(chain)
}

fn private(file: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    let text = std::fs::read(file).map_err(|error| invalid(file, error))?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound => invalid(
            file,
            "has no usable private key in PEM; a key with a password is not supported",
        ),
        error => invalid(file, error),
    })
}

fn invalid(file: &Path, why: impl std::fmt::Display) -> Error {
    Error::Invalid(format!("{}: {why}", file.display()))
}

/// Returns the TLS error in a chain of errors, if there is one.
pub(crate) fn cause<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

/// Explains the error and what to do about it.
pub(crate) fn explain(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(why) => explain_certificate(why),
        rustls::Error::AlertReceived(alert) => explain_alert(*alert),
        rustls::Error::InvalidMessage(_) => {
            "the server does not use TLS on this port. Should the URL start with http://?".into()
        }
        rustls::Error::PeerIncompatible(_) => {
            format!("the server and this client have no TLS version or cipher in common: {error}")
        }
        error => format!("TLS: {error}"),
    }
}

fn explain_certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired; renew it on the server (or correct the clock of this machine)".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet; is the clock of this machine right?".into()
        }
        // A CA with the right name but another key has this error. It is not trusted either.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the server's certificate is signed by a CA that this client does not trust; pass the CA certificate \
             (--ca-file, LEASEHOLD_CA_FILE)"
                .into()
        }
        CertificateError::NotValidForName => {
            "the server's certificate is for another name; use a name of the certificate in the URL".into()
        }
        CertificateError::NotValidForNameContext { expected, presented } => format!(
            "the server's certificate is not for {:?}, but for {}; use one of these in the URL",
            expected.to_str(),
            presented.join(", ")
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the server's certificate is not meant for servers (extended key usage)".into()
        }
        CertificateError::Revoked => "the server's certificate was revoked".into(),
        why => format!("the server's certificate cannot be trusted: {why:?}"),
    }
}

fn explain_alert(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateRequired => {
            "the server requires a client certificate (--client-cert-file, --client-key-file)".into()
        }
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "the server does not trust the CA that signed the client certificate (--client-cert-file)".into()
        }
        AlertDescription::CertificateExpired => {
            "the client certificate has expired (--client-cert-file)".into()
        }
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::AccessDenied => {
            format!("the server refuses the client certificate (--client-cert-file): {alert:?}")
        }
        alert => format!("the server refuses TLS: {alert:?}"),
    }
}

/// The alerts with which a server rejects a handshake. In that case it has processed no request, even if one was
/// already sent: in TLS 1.3, the client can send before the server has verified its certificate.
const REFUSALS: [AlertDescription; 12] = [
    AlertDescription::CertificateRequired,
    AlertDescription::UnknownCA,
    AlertDescription::BadCertificate,
    AlertDescription::CertificateExpired,
    AlertDescription::CertificateUnknown,
    AlertDescription::UnsupportedCertificate,
    AlertDescription::CertificateRevoked,
    AlertDescription::AccessDenied,
    AlertDescription::DecryptError,
    AlertDescription::HandshakeFailure,
    AlertDescription::ProtocolVersion,
    AlertDescription::NoApplicationProtocol,
];

/// For a server that closes a connection before a request was sent. A rejected client certificate can look like this.
pub(crate) const CLOSED_AT_ONCE: &str = "the server closed the connection immediately. Does it \
    require a client certificate (--client-cert-file)?";

/// Returns whether the connection was rejected in its handshake.
pub(crate) fn is_refused(error: &rustls::Error) -> bool {
    match error {
        rustls::Error::InvalidCertificate(_) | rustls::Error::PeerIncompatible(_) => true,
        rustls::Error::AlertReceived(alert) => REFUSALS.contains(alert),
        _ => false,
    }
}

/// Finds the rejection of a handshake in the text of an error. HTTP/2 keeps only the text of the TLS error.
pub(crate) fn refusal_in(said: &str) -> Option<rustls::Error> {
    let is_said =
        |alert: &AlertDescription| said.contains(&rustls::Error::AlertReceived(*alert).to_string());
    REFUSALS.into_iter().find(is_said).map(rustls::Error::AlertReceived)
}
