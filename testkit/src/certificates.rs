//! Certificates for tests: a CA, and the certificates it signs.

use std::path::{Path, PathBuf};

use leasehold_server::http::TlsFiles;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};

/// A certificate authority.
pub struct Ca {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Ca {
    /// Creates a new CA, which no system trusts.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("a key");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("a certificate") }
    }

    /// Returns the CA's certificate, in PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Writes the CA's certificate to a file in `folder`.
    pub fn write(&self, folder: &Path, name: &str) -> PathBuf {
        write(folder, name, &self.pem())
    }

    /// Issues a certificate for a server on this machine.
    pub fn server(&self) -> Issued {
        self.issue(&["dns:localhost", "ip:127.0.0.1"])
    }

    /// Issues a certificate with these names: `dns:a`, `uri:spiffe://a/b`, `ip:127.0.0.1`, `email:a@b`.
    pub fn issue(&self, names: &[&str]) -> Issued {
        self.sign(params(names))
    }

    /// Issues an expired certificate with these names.
    pub fn issue_expired(&self, names: &[&str]) -> Issued {
        let mut params = params(names);
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Issued {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Issued { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "not looked at");
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let name = |name: &&str| {
        let (kind, name) = name.split_once(':').expect("a kind");
        let text = || name.try_into().expect("ASCII");
        match kind {
            "dns" => SanType::DnsName(text()),
            "uri" => SanType::URI(text()),
            "email" => SanType::Rfc822Name(text()),
            "ip" => SanType::IpAddress(name.parse().expect("an address")),
            kind => panic!("no names are {kind}"),
        }
    };
    params.subject_alt_names = names.iter().map(name).collect();
    params
}

impl Issued {
    /// Writes both to files in `folder`, and replaces existing ones.
    pub fn write(&self, folder: &Path, name: &str) -> TlsFiles {
        TlsFiles {
            certificate: write(folder, &format!("{name}.pem"), &self.certificate),
            key: write(folder, &format!("{name}.key"), &self.key),
        }
    }
}

/// Replaces the file atomically, as recommended for certificate renewals.
fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let (path, unfinished) = (folder.join(name), folder.join(format!("{name}.tmp")));
    std::fs::write(&unfinished, text).expect("a file");
    std::fs::rename(&unfinished, &path).expect("a file");
    path
}
