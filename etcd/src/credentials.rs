//! Credentials of the client, and the TLS settings.

use std::path::PathBuf;
use std::{fmt, fs, io};

use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// An etcd user with its password.
#[derive(Clone)]
pub struct Credentials {
    /// The user name.
    pub user: String,
    /// The user's password.
    pub password: Password,
}

/// The source of a user's password.
#[derive(Clone)]
pub enum Password {
    /// The password itself.
    Is(String),
    /// A file that contains the password; line breaks at its end are removed. The client reads it at every
    /// authentication, so the password can be changed while the client runs.
    In(PathBuf),
}

impl Password {
    /// Returns the current password.
    pub fn read(&self) -> io::Result<String> {
        match self {
            Self::Is(password) => Ok(password.clone()),
            Self::In(file) => match fs::read_to_string(file) {
                Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
                Err(error) => {
                    Err(io::Error::new(error.kind(), format!("{}: {error}", file.display())))
                }
            },
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// TLS settings of the connections to etcd.
#[derive(Clone)]
pub struct Tls {
    /// The CA certificate that signs the members' certificates, in PEM.
    pub ca: String,
    /// The client certificate and its key in PEM, if the members require one.
    pub identity: Option<(String, String)>,
}

impl Tls {
    pub(crate) fn config(&self) -> ClientTlsConfig {
        let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.ca));
        match &self.identity {
            Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
            None => config,
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("has_identity", &self.identity.is_some())
            .finish_non_exhaustive()
    }
}
