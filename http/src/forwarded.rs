//! Determines how a client reached the server, directly or through proxies. Headers about that are trusted only as far
//! as the proxies that sent them are.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{FORWARDED, HOST};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Uri};
use ipnet::IpNet;
use leasehold_auth::url;

use super::options::is_in;
use crate::request::Peer;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Returns the server's URL as the client knows it, such as `https://host:port`; empty if unknown.
pub fn base(parts: &Parts, peer: Peer, is_tls: bool, trusted: &[IpNet]) -> String {
    let ClientUrl { scheme, host } = reached(&parts.headers, &parts.uri, peer, is_tls, trusted);
    host.map_or_else(String::new, |host| format!("{scheme}://{host}"))
}

/// Returns whether the request was protected against eavesdropping: it came over TLS, to this server or to a trusted
/// proxy that reports it, or from this machine without a proxy.
pub fn is_private(
    headers: &HeaderMap,
    uri: &Uri,
    peer: Peer,
    is_tls: bool,
    trusted: &[IpNet],
) -> bool {
    let ClientUrl { scheme, host } = reached(headers, uri, peer, is_tls, trusted);
    let is_proxied = [FORWARDED, X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO]
        .iter()
        .any(|name| headers.contains_key(name));
    let is_here = host.is_some_and(|host| url::is_this_machine(host.host()));
    scheme == "https" || (is_here && !is_proxied && peer.address().to_canonical().is_loopback())
}

/// Returns the scheme that the client used, as far as known: `http` or `https`.
pub fn reached_by(
    headers: &HeaderMap,
    uri: &Uri,
    peer: Peer,
    is_tls: bool,
    trusted: &[IpNet],
) -> &'static str {
    reached(headers, uri, peer, is_tls, trusted).scheme
}

fn reached(
    headers: &HeaderMap,
    uri: &Uri,
    peer: Peer,
    is_tls: bool,
    trusted: &[IpNet],
) -> ClientUrl {
    let named = headers.get(HOST).and_then(|host| host.to_str().ok());
    // HTTP/2 sends the host in the request itself.
    let host = named.and_then(authority).or_else(|| uri.authority().cloned().filter(is_plain));
    let seen = ClientUrl { scheme: if is_tls { "https" } else { "http" }, host };
    let peer = Some(peer.address());
    let said = [forwarded(headers), x_forwarded(headers)];
    let mut said = said.into_iter().filter(|hops| !hops.is_empty());
    let mut believed = || Some(seen.clone().through(said.next()?, peer, trusted));
    match (believed(), believed()) {
        (Some(one), Some(other)) if one == other => one,
        // A proxy sets one kind of header and might pass the other on from the client. The server cannot tell which, so
        // it ignores both.
        (Some(_), Some(_)) => seen,
        (one, _) => one.unwrap_or(seen),
    }
}

/// Returns the client's address: the other end of the connection, or the one that the first trusted proxy reports.
pub fn client(headers: &HeaderMap, peer: Peer, trusted: &[IpNet]) -> IpAddr {
    let peer = peer.address();
    let named = |hops: Vec<ProxyReport>| {
        let mut from = peer;
        for hop in hops.into_iter().rev() {
            match hop.from.filter(|_| is_in(trusted, from)) {
                Some(before) => from = before,
                None => break,
            }
        }
        from
    };
    if !is_in(trusted, peer) {
        return peer;
    }
    let mut said = [forwarded(headers), x_forwarded(headers)].into_iter();
    let mut said = said.by_ref().filter(|hops| !hops.is_empty()).map(named);
    match (said.next(), said.next()) {
        (Some(one), Some(other)) if one != other => peer,
        (one, _) => one.unwrap_or(peer),
    }
}

/// How a request reached a server or proxy.
#[derive(Clone, PartialEq)]
struct ClientUrl {
    scheme: &'static str,
    host: Option<Authority>,
}

impl ClientUrl {
    /// Follows the trusted proxies back to the first one.
    fn through(mut self, hops: Vec<ProxyReport>, peer: Option<IpAddr>, trusted: &[IpNet]) -> Self {
        let mut from = peer;
        for hop in hops.into_iter().rev() {
            if !from.is_some_and(|from| is_in(trusted, from)) {
                break;
            }
            self.scheme = hop.scheme.unwrap_or(self.scheme);
            self.host = hop.host.or(self.host);
            from = hop.from;
        }
        self
    }
}

/// What one proxy reports about the request it received.
#[derive(Default, PartialEq, Debug)]
struct ProxyReport {
    from: Option<IpAddr>,
    scheme: Option<&'static str>,
    host: Option<Authority>,
}

/// Parses the `Forwarded` header (RFC 7239). The last element is from the nearest proxy.
fn forwarded(headers: &HeaderMap) -> Vec<ProxyReport> {
    list(headers, &FORWARDED).iter().map(|element| hop(element)).collect()
}

/// Parses the older `X-Forwarded-*` headers.
fn x_forwarded(headers: &HeaderMap) -> Vec<ProxyReport> {
    let from = list(headers, &X_FORWARDED_FOR);
    let (schemes, hosts) = (list(headers, &X_FORWARDED_PROTO), list(headers, &X_FORWARDED_HOST));
    let n = from.len().max(schemes.len()).max(hosts.len());
    // Lists of different lengths are aligned at their ends, which are from the nearest proxy.
    let nth =
        |list: &[String], at: usize| (at + list.len()).checked_sub(n).map(|at| list[at].clone());
    let hop = |at| ProxyReport {
        from: nth(&from, at).and_then(|text| address(&text)),
        scheme: nth(&schemes, at).and_then(|text| scheme(&text)),
        host: nth(&hosts, at).and_then(|text| authority(&text)),
    };
    (0..n).map(hop).collect()
}

/// Parses `for=192.0.2.60;proto=https;host=example.com`.
fn hop(element: &str) -> ProxyReport {
    let mut hop = ProxyReport::default();
    for pair in split(element, ';') {
        let Some((name, value)) = pair.split_once('=') else { continue };
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "for" => hop.from = address(value),
            "proto" => hop.scheme = scheme(value),
            "host" => hop.host = authority(value),
            _ => {}
        }
    }
    hop
}

/// Returns the elements of a list header, which can be sent in several parts.
fn list(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let values =
        headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    values
        .flat_map(|value| split(&value, ',').into_iter().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// Splits at separators that are not in quotes.
fn split(text: &str, separator: char) -> Vec<&str> {
    let mut is_quoted = false;
    let pieces = text.split(move |c| {
        is_quoted ^= c == '"';
        c == separator && !is_quoted
    });
    pieces.map(str::trim).collect()
}

fn scheme(text: &str) -> Option<&'static str> {
    ["http", "https"].into_iter().find(|known| text.eq_ignore_ascii_case(known))
}

fn authority(text: &str) -> Option<Authority> {
    text.parse().ok().filter(is_plain)
}

/// Rejects a host with a user name and password in front.
fn is_plain(authority: &Authority) -> bool {
    !authority.as_str().contains('@')
}

/// Parses an address with or without a port. IPv6 addresses can be in brackets.
fn address(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(with_port)
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;
    use leasehold_auth::parse_network;

    /// Returns the base URL of a request to `inside` from 10.0.0.1 with these headers, if 10.0.0.0/8 and ::1 are
    /// trusted.
    fn base_of(headers: &[(&str, &str)]) -> String {
        base_by("10.0.0.1", headers)
    }

    fn base_by(peer: &str, headers: &[(&str, &str)]) -> String {
        let mut request = Request::builder().header("host", "inside");
        let peer = Peer::Address(peer.parse().unwrap());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let trusted = ["10.0.0.0/8", "::1"].map(|text| parse_network(text).unwrap());
        base(&request.body(()).unwrap().into_parts().0, peer, false, &trusted)
    }

    #[test]
    fn a_trusted_proxy_says_how_the_client_came() {
        for (headers, expected) in [
            (&[][..], "http://inside"),
            (&[("x-forwarded-proto", "https")], "https://inside"),
            (&[("x-forwarded-host", "locks.example:8443")], "http://locks.example:8443"),
            (
                &[("x-forwarded-proto", "HTTPS"), ("x-forwarded-host", "a.example")],
                "https://a.example",
            ),
            (&[("forwarded", "for=192.0.2.1;proto=https;host=a.example")], "https://a.example"),
            (
                &[("forwarded", "For=\"[2001:db8::1]:47\" ; Host=\"a.example:1\"")],
                "http://a.example:1",
            ),
        ] {
            assert_eq!(base_of(headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn what_an_untrusted_one_says_is_nothing() {
        let headers = [("x-forwarded-proto", "https"), ("x-forwarded-host", "evil.example")];
        for peer in ["192.0.2.1", "127.0.0.1", "::2", "11.0.0.1"] {
            assert_eq!(base_by(peer, &headers), "http://inside", "{peer}");
        }
        for peer in ["10.255.255.255", "::1", "::ffff:10.0.0.1"] {
            assert_eq!(base_by(peer, &headers), "https://evil.example", "{peer}");
        }
    }

    #[test]
    fn of_a_row_of_proxies_the_first_trusted_one_is_believed() {
        for (headers, expected) in [
            (&[("forwarded", "host=evil.example, host=a.example")][..], "http://a.example"),
            (
                &[("forwarded", "host=evil.example, for=192.0.2.9;host=a.example")],
                "http://a.example",
            ),
            (
                &[("forwarded", "for=1.2.3.4;host=a.example;proto=https, for=10.0.0.2;host=b")],
                "https://a.example",
            ),
            (
                &[("forwarded", "host=a.example"), ("forwarded", "for=10.0.0.2;host=b")],
                "http://a.example",
            ),
            (&[("forwarded", "host=a.example, for=_hidden;host=b")], "http://b"),
            (&[("x-forwarded-host", "evil.example, a.example")], "http://a.example"),
            (
                &[("x-forwarded-for", "1.2.3.4, 10.0.0.2"), ("x-forwarded-host", "a.example, b")],
                "http://a.example",
            ),
            (
                &[("x-forwarded-for", "6.6.6.6, 1.2.3.4"), ("x-forwarded-host", "evil.example, b")],
                "http://b",
            ),
            (
                &[("x-forwarded-for", "1.2.3.4, 10.0.0.2"), ("x-forwarded-proto", "https")],
                "https://inside",
            ),
        ] {
            assert_eq!(base_of(headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn of_two_kinds_of_headers_that_differ_neither_is_believed() {
        let kinds = |one, other| base_of(&[("forwarded", one), ("x-forwarded-host", other)]);
        assert_eq!(kinds("host=evil.example", "a.example"), "http://inside");
        assert_eq!(kinds("proto=https", "a.example"), "http://inside");
        assert_eq!(kinds("for=192.0.2.1;host=a.example", "a.example"), "http://a.example");
    }

    #[test]
    fn the_client_is_whom_the_first_trusted_proxy_names() {
        for (peer, headers, expected) in [
            ("192.0.2.1", &[("x-forwarded-for", "6.6.6.6")][..], "192.0.2.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &[("x-forwarded-for", "6.6.6.6, 192.0.2.9")], "192.0.2.9"),
            ("10.0.0.1", &[("x-forwarded-for", "192.0.2.9, 10.0.0.2")], "192.0.2.9"),
            ("10.0.0.1", &[("forwarded", "for=\"[2001:db8::1]:47\"")], "2001:db8::1"),
            ("10.0.0.1", &[("forwarded", "for=_hidden")], "10.0.0.1"),
            (
                "10.0.0.1",
                &[("forwarded", "for=1.1.1.1"), ("x-forwarded-for", "2.2.2.2")],
                "10.0.0.1",
            ),
        ] {
            let mut request = Request::builder();
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let trusted = [parse_network("10.0.0.0/8").unwrap()];
            let headers = request.body(()).unwrap().into_parts().0.headers;
            let client = client(&headers, Peer::Address(peer.parse().unwrap()), &trusted);
            assert_eq!(client.to_string(), expected, "{headers:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_left_out() {
        for headers in [
            &[("x-forwarded-proto", "gopher")][..],
            &[("x-forwarded-host", "user@evil.example")],
            &[("x-forwarded-host", "a b")],
            &[("x-forwarded-host", "")],
            &[("forwarded", "nonsense")],
            &[("forwarded", "host=\"a/b\"")],
            &[("forwarded", ";;,=,\"")],
        ] {
            assert_eq!(base_of(headers), "http://inside", "{headers:?}");
        }
    }
}
