//! By what etcd knows us, and we it.

use std::path::PathBuf;
use std::{fmt, fs, io};

use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// A user of etcd.
#[derive(Clone)]
pub struct Credentials {
    /// Its name.
    pub user: String,
    /// Its password.
    pub password: Password,
}

/// What proves who a user is.
#[derive(Clone)]
pub enum Password {
    /// This.
    Is(String),
    /// What is in this file, but for the end of the line. It is read whenever we say who we are, so that it can be
    /// changed.
    In(PathBuf),
}

impl Password {
    /// As it is now.
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

/// How connections are encrypted.
#[derive(Clone)]
pub struct Tls {
    /// Who signs the certificates of members, in PEM.
    pub ca: String,
    /// Our own certificate and its key, in PEM, if members ask for one.
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
