//! Listen addresses, as in the settings.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Maximum length of a Unix socket path in Linux.
const UNIX_PATH_BYTES_MAX: usize = 107;

/// A listen address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    /// HTTP without TLS. Port 0 stands for a free port.
    Http(SocketAddr),
    /// HTTP over TLS.
    Https(SocketAddr),
    /// A Unix socket at this path.
    Unix(PathBuf),
}

impl Listen {
    /// Returns the network address; `None` for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Listen::Http(address) | Listen::Https(address) => Some(*address),
            Listen::Unix(_) => None,
        }
    }

    /// Returns the path of a Unix socket.
    pub fn unix_path(&self) -> Option<&Path> {
        match self {
            Listen::Unix(path) => Some(path),
            Listen::Http(_) | Listen::Https(_) => None,
        }
    }

    /// Returns whether only clients on this machine can connect.
    pub fn is_local(&self) -> bool {
        self.address().is_none_or(|address| address.ip().to_canonical().is_loopback())
    }

    /// Returns whether connections are encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self, Listen::Https(_))
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            // Also accepts the form of a URL, `unix:///run/a.sock`.
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path.len() {
                0 => Err("unix: has no path; write unix:/run/leasehold.sock".into()),
                1..=UNIX_PATH_BYTES_MAX => Ok(Listen::Unix(path.into())),
                n => Err(format!(
                    "the path of a Unix socket can have at most {UNIX_PATH_BYTES_MAX} bytes, got {n}"
                )),
            };
        }
        let (is_tls, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            Some((other, _)) => {
                return Err(format!("unknown scheme {other:?}; allowed: http://, https://, unix:"));
            }
            None => (false, text),
        };
        let address = address(rest.strip_suffix('/').unwrap_or(rest))?;
        Ok(if is_tls { Listen::Https(address) } else { Listen::Http(address) })
    }
}

/// Parses `address:port`, or `:port` for all addresses, as Go programs write it.
fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.strip_prefix(':').map_or(text.into(), |port| format!("0.0.0.0:{port}"));
    let localhost = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let wrong = |_| {
        "is not an address and port; write http://127.0.0.1:8080, https://0.0.0.0:8443 or unix:/path".into()
    };
    localhost.unwrap_or(text).parse().map_err(wrong)
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Http(address) => write!(f, "http://{address}"),
            Listen::Https(address) => write!(f, "https://{address}"),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_written_as_a_url_or_as_a_bare_address() {
        for (text, shown, is_local) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080", true),
            (":8080", "http://0.0.0.0:8080", false),
            ("localhost:1", "http://127.0.0.1:1", true),
            ("http://[::1]:8080/", "http://[::1]:8080", true),
            ("[::ffff:127.0.0.1]:1", "http://[::ffff:127.0.0.1]:1", true),
            ("https://0.0.0.0:8443", "https://0.0.0.0:8443", false),
            ("https://localhost:8443", "https://127.0.0.1:8443", true),
            ("unix:/run/a.sock", "unix:/run/a.sock", true),
            ("unix:///run/a.sock", "unix:/run/a.sock", true),
            ("unix:a.sock", "unix:a.sock", true),
        ] {
            let listen: Listen = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!((listen.to_string().as_str(), listen.is_local()), (shown, is_local));
        }
        let long = format!("unix:/{}", "x".repeat(107));
        for text in ["", "nowhere", "127.0.0.1", "ftp://127.0.0.1:1", "unix:", "unix://", &long] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }
}
