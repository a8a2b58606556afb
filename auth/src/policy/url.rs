//! URLs the server sends requests to: over TLS, or on the local machine.

use std::net::IpAddr;

use http::Uri;
use http::uri::Authority;

/// Parses a URL. Accepts only URLs to which a secret can be sent safely: https, or http on the local machine.
pub fn parse(text: &str) -> Result<Uri, String> {
    let wrong = |why: &str| Err(format!("{:?} {why}", text.chars().take(200).collect::<String>()));
    let Ok(uri) = text.parse::<Uri>() else { return wrong("is not a URL") };
    let Some(authority) = uri.authority() else {
        return wrong("must begin with https:// and a host");
    };
    if authority.as_str().contains('@') {
        return wrong("must not have a user or a password");
    }
    if let Err(why) = port(authority) {
        return wrong(why);
    }
    match uri.scheme_str() {
        Some("https") => Ok(uri),
        Some("http") if is_this_machine(authority.host()) => Ok(uri),
        Some("http") => wrong("must be https; plain http is allowed only on this machine"),
        _ => wrong("must begin with https://"),
    }
}

/// Returns the port in the URL, if there is one. An impossible port is an error, not the default port.
pub fn port(authority: &Authority) -> Result<Option<u16>, &'static str> {
    let text = authority.as_str();
    let after_user = text.rsplit_once('@').map_or(text, |(_, rest)| rest);
    let Some(rest) = after_user.strip_prefix(authority.host()) else { return Ok(None) };
    if rest.is_empty() {
        return Ok(None);
    }
    let digits = rest.strip_prefix(':').filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    let port = digits.and_then(|digits| digits.parse().ok()).filter(|port| *port != 0);
    port.map(Some).ok_or("must have a port from 1 to 65535, or none")
}

/// Returns whether the host is `localhost` or a loopback address.
pub fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_over_tls_or_nowhere() {
        for good in [
            "https://id.example.org/realms/a",
            "http://127.0.0.1:8081/x",
            "http://localhost:1",
            "http://[::1]:1/",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "id.example.org",
            "/path",
            "ftp://x/",
            "http://id.example.org/",
            "http://localhost.evil.example/",
            "http://127.0.0.1.evil.example/",
            "https://u:p@x/",
            "http://127.0.0.1@evil.example/",
            "https://id.example.org:0/",
            "https://id.example.org:65536/",
            "https://id.example.org:/",
            "http://[::1]:99999/",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
