//! Where a webhook goes to.

use std::fmt;
use std::str::FromStr;

use axum::http::{Uri, uri::Scheme};

/// The address of a webhook. Its path may have a secret in it, so it is never logged.
#[derive(Clone)]
pub struct Target {
    host: String,
    port: u16,
    path: String,
}

impl Target {
    /// The name or address of the host.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// What to connect to.
    pub(super) fn address(&self) -> (&str, u16) {
        (self.host.trim_matches(['[', ']']), self.port)
    }

    /// What the `Host` header says.
    pub(super) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}/...", self.host, self.port)
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|_| "is not a URL".to_owned())?;
        // Encrypting needs a certificate store, which this server does not have yet.
        if uri.scheme() != Some(&Scheme::HTTP) {
            return Err("must begin with http://".into());
        }
        let authority = uri.authority().ok_or("has no host")?;
        if authority.as_str().contains('@') {
            return Err("must not have a user or a password; use the signature".into());
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let (host, port) = (authority.host().to_owned(), authority.port_u16().unwrap_or(80));
        Ok(Self { host, port, path: path.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_plain_url_and_keeps_its_path_to_itself() {
        let check = |text: &str| text.parse::<Target>();
        let target = check("http://hooks.example:8080/t/s3cret?x=1").expect("a target");
        assert_eq!(target.address(), ("hooks.example", 8080));
        assert_eq!(target.path(), "/t/s3cret?x=1");
        assert!(!format!("{target:?}").contains("s3cret"));
        let target = check("http://[::1]").expect("a target");
        assert_eq!((target.address(), target.path()), (("::1", 80), "/"));
        assert_eq!(target.authority(), "[::1]:80");
        for wrong in ["", "hooks.example/x", "https://x/", "ftp://x/", "http://u:p@x/", "http://"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
