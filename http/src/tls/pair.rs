//! Loads a certificate and its key from their files.

use std::fs;
use std::path::Path;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};

use super::{Files, provider};

/// Maximum file size. A larger file is not a certificate or key.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A certificate and its key.
#[derive(Clone)]
pub(super) struct Pair {
    pub(super) certified: CertifiedKey,
    /// The hash of both files' contents.
    pub(super) hash: [u8; 32],
}

impl Pair {
    /// Reads both files, and checks that they belong together.
    pub(super) fn read(files: &Files) -> Result<Self, String> {
        let Files { certificate, key } = files;
        let (chain_text, key_text) =
            (read(certificate, "--tls-cert-file")?, read(key, "--tls-key-file")?);
        let mut hasher = Sha256::new();
        hasher.update((chain_text.len() as u64).to_le_bytes());
        hasher.update(&chain_text);
        hasher.update(&key_text);
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain_text).collect();
        let chain =
            chain.map_err(|error| format!("--tls-cert-file {}: {error}", certificate.display()))?;
        if chain.is_empty() {
            let shown = certificate.display();
            return Err(format!("--tls-cert-file {shown}: has no certificate in PEM"));
        }
        let private = PrivateKeyDer::from_pem_slice(&key_text)
            .map_err(|error| format!("--tls-key-file {}: {error}", key.display()))?;
        let certified = CertifiedKey::from_der(chain, private, &provider());
        let certified = certified.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => format!(
                "--tls-key-file {} is not the key of the certificate in {}",
                key.display(),
                certificate.display()
            ),
            error => format!("--tls-cert-file {}: {error}", certificate.display()),
        })?;
        Ok(Self { certified, hash: hasher.finalize().into() })
    }
}

fn read(path: &Path, flag: &str) -> Result<Vec<u8>, String> {
    let why = |error: std::io::Error| format!("{flag} {}: {error}", path.display());
    let n_bytes = fs::metadata(path).map_err(why)?.len();
    if n_bytes > FILE_BYTES_MAX {
        return Err(format!("{flag} {}: has more than {FILE_BYTES_MAX} bytes", path.display()));
    }
    fs::read(path).map_err(why)
}
