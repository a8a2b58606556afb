//! The URL that a webhook sends to.

use std::fmt;
use std::str::FromStr;

use axum::http::{Uri, uri::Scheme};

use crate::auth::url;

/// The URL of a webhook. Its path can contain a secret, so the path is never logged.
#[derive(Clone)]
pub struct Target {
    is_tls: bool,
    host: String,
    port: u16,
    path: String,
}

impl Target {
    pub(super) fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Returns an error if warnings could be read or changed in transit, because they go over plain HTTP to another
    /// machine.
    pub fn check_private(&self) -> Result<(), String> {
        if self.is_tls || url::is_this_machine(&self.host) {
            return Ok(());
        }
        Err(format!(
            "{self:?} is plain HTTP to another machine; use https://, or allow it with \
             --webhook-insecure-http"
        ))
    }

    /// Returns the name or address of the host.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the host and port to connect to.
    pub(super) fn address(&self) -> (&str, u16) {
        (self.name(), self.port)
    }

    /// Returns the name or address of the host without brackets. The server's certificate must be valid for it.
    pub(super) fn name(&self) -> &str {
        self.host.trim_matches(['[', ']'])
    }

    /// Returns the value of the `Host` header.
    pub(super) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}/...", self.host, self.port)
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|_| "is not a URL".to_owned())?;
        let is_tls = uri.scheme() == Some(&Scheme::HTTPS);
        if !is_tls && uri.scheme() != Some(&Scheme::HTTP) {
            return Err("must begin with https://".into());
        }
        let authority = uri.authority().ok_or("has no host")?;
        if authority.as_str().contains('@') {
            return Err("must not have a user or a password; use the signature".into());
        }
        let port = url::port(authority)?.unwrap_or(if is_tls { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self { is_tls, host: authority.host().to_owned(), port, path: path.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Target, String> {
        text.parse()
    }

    #[test]
    fn a_target_is_a_plain_url_and_keeps_its_path_to_itself() {
        let target = check("http://hooks.example:8080/t/s3cret?x=1").expect("a target");
        assert_eq!((target.address(), target.is_tls()), (("hooks.example", 8080), false));
        assert_eq!(target.path(), "/t/s3cret?x=1");
        assert!(!format!("{target:?}").contains("s3cret"));
        let target = check("http://[::1]").expect("a target");
        assert_eq!((target.address(), target.path()), (("::1", 80), "/"));
        assert_eq!(target.authority(), "[::1]:80");
        let target = check("https://hooks.example/x").expect("a target");
        assert_eq!((target.address(), target.is_tls()), (("hooks.example", 443), true));
        for wrong in ["", "hooks.example/x", "ftp://x/", "http://u:p@x/", "http://"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_port_that_cannot_be_is_refused_and_not_taken_for_the_usual_one() {
        for port in ["0", "65536", "99999", "", "x", "8080x", "+80", "-1"] {
            for scheme in ["http", "https"] {
                let wrong = format!("{scheme}://127.0.0.1:{port}/");
                assert!(check(&wrong).is_err(), "{wrong}");
            }
        }
        assert_eq!(check("https://[::1]:65535").expect("a target").address(), ("::1", 65535));
    }

    #[test]
    fn notes_leave_this_machine_encrypted() {
        let is_private = |text: &str| check(text).expect("a target").check_private().is_ok();
        for good in
            ["https://hooks.example/", "http://127.0.0.1:1/", "http://localhost/", "http://[::1]/"]
        {
            assert!(is_private(good), "{good}");
        }
        for bad in ["http://hooks.example/s3cret", "http://10.0.0.1/", "http://localhost.example/"]
        {
            assert!(!is_private(bad), "{bad}");
        }
        let why = check("http://hooks.example/s3cret").expect("a target").check_private();
        let why = why.expect_err("plain");
        assert!(why.contains("--webhook-insecure-http") && !why.contains("s3cret"), "{why}");
    }
}
