//! Protects users of browsers against requests from foreign web pages.
//!
//! A page of another site can make a browser send requests to any server it can reach. The browser adds a cookie, a
//! client certificate or a trusted address automatically. So every request is checked, whatever its credential.

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Method, Request, Uri};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The header that says from where a browser was sent here.
pub const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The header that says how a browser makes a request.
pub const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// The header that says what a browser requests something for.
pub const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Why a request is rejected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Foreign {
    /// The host is not a name of this server. This happens if an attacker's domain resolves to this server (DNS
    /// rebinding).
    Host(String),
    /// A page of an origin that is not allowed sent the request.
    Origin(String),
}

/// The host names and origins that the server accepts.
pub struct Known<'a> {
    /// The accepted host names. IP addresses and `localhost` are always accepted: no attacker's page can have them as
    /// host.
    pub hosts: &'a [String],
    /// The configured public URL.
    pub public_url: Option<&'a str>,
    /// The origins whose pages can send requests.
    pub origins: &'a [String],
    /// Whether every host name is accepted.
    pub any_host: bool,
    /// Returns the scheme that the client used, `http` or `https`. Called only if the request has an origin.
    pub scheme: &'a dyn Fn() -> &'static str,
}

/// Checks that the host is known, and that no foreign page sent the request.
pub fn check<B>(request: &Request<B>, known: &Known<'_>) -> Result<(), Foreign> {
    let host = host_of(request);
    if let Some(host) = host
        && !known.any_host
        && !is_known(host, known)
    {
        let name: String = host.chars().take(100).collect();
        return Err(Foreign::Host(format!(
            "{name:?} is not a host name of this server; allowed: its IP addresses, localhost and --hosts"
        )));
    }
    check_origin(request.method(), request.uri(), request.headers(), host, known)
}

fn host_of<B>(request: &Request<B>) -> Option<&str> {
    let named = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    named.or_else(|| request.uri().authority().map(|authority| authority.as_str()))
}

fn is_known(host: &str, known: &Known<'_>) -> bool {
    let name = without_port(host);
    is_address(name)
        || name.eq_ignore_ascii_case("localhost")
        || ends_with(name, ".localhost")
        || known.hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
        || known
            .public_url
            .and_then(authority)
            .is_some_and(|own| without_port(own).eq_ignore_ascii_case(name))
}

fn ends_with(name: &str, end: &str) -> bool {
    let at = name.len().checked_sub(end.len());
    at.and_then(|at| name.get(at..)).is_some_and(|tail| tail.eq_ignore_ascii_case(end))
}

/// Removes the port and a trailing dot, which names the same host.
fn without_port(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

fn is_address(name: &str) -> bool {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    name.parse::<Ipv4Addr>().is_ok() || bare.is_some_and(|bare| bare.parse::<Ipv6Addr>().is_ok())
}

/// Returns `host:port` of `https://host:port/path`.
fn authority(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split('/').next().filter(|authority| !authority.is_empty())
}

fn check_origin(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    host: Option<&str>,
    known: &Known<'_>,
) -> Result<(), Foreign> {
    let origin = headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or("null"));
    if origin.is_some_and(|origin| is_allowed(origin, known)) {
        return Ok(());
    }
    // `Origin: null` is a page that hides its origin. The same host with the other scheme is a different origin: with
    // default ports it is another program. But `Sec-Fetch-Site: same-origin` comes from the browser itself, which knows
    // the scheme even behind a proxy that is not configured here.
    let is_own = |origin: &str| {
        let is_public = known.public_url.is_some_and(|own| is_same_origin(own, origin));
        let is_of_host = |scheme: &str| {
            host.is_some_and(|host| is_same_origin(&format!("{scheme}://{host}"), origin))
        };
        let is_said = headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "same-origin");
        is_public || is_of_host((known.scheme)()) || is_said && is_of_host("https")
    };
    if let Some(origin) = origin
        && !is_own(origin)
    {
        let origin: String = origin.chars().take(100).collect();
        return Err(Foreign::Origin(format!(
            "pages of {origin:?} may not send requests to this server (--cors-origins; if this is the server behind a \
             proxy: public-url or --trusted-proxies)"
        )));
    }
    // `same-site` is foreign too: another port of localhost is the same site.
    if is_sent(headers) && !is_visit(method, uri, headers) {
        let why = "a page of another origin may not send requests to this server (--cors-origins)";
        return Err(Foreign::Origin(why.into()));
    }
    Ok(())
}

/// Returns whether scheme, host and port are the same. A missing port is the scheme's default.
fn is_same_origin(one: &str, other: &str) -> bool {
    let parts = |origin: &'_ str| {
        let (scheme, _) = origin.split_once("://")?;
        let usual = match scheme {
            "http" => "80",
            "https" => "443",
            _ => return None,
        };
        let host = authority(origin)?;
        let is_port = |port: &&str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        let port = host.rsplit_once(':').map(|(_, port)| port).filter(is_port).unwrap_or(usual);
        Some((scheme.to_owned(), without_port(host).to_ascii_lowercase(), port.to_owned()))
    };
    parts(one).is_some_and(|one| parts(other) == Some(one))
}

/// Returns whether pages of this origin are allowed to send requests.
pub fn is_allowed(origin: &str, known: &Known<'_>) -> bool {
    known.origins.iter().any(|allowed| allowed == origin)
}

/// Returns whether a page of another site caused this request. Browsers then withhold the sign-in cookie.
pub fn is_sent(headers: &HeaderMap) -> bool {
    headers.get(SEC_FETCH_SITE).is_some_and(|site| site != "same-origin" && site != "none")
}

/// Returns whether a user follows a link to one of the server's pages.
fn is_visit(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    let path = uri.path();
    let is_page =
        matches!(path, "/" | "/docs" | "/lock/page" | "/console") || path.starts_with("/console/");
    method == Method::GET
        && is_page
        && headers.get(SEC_FETCH_MODE).is_some_and(|mode| mode == "navigate")
        && headers.get(SEC_FETCH_DEST).is_some_and(|dest| dest == "document")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Known<'static> = Known {
        hosts: &[],
        public_url: Some("https://locks.example.org"),
        origins: &[],
        any_host: false,
        scheme: &|| "http",
    };

    #[test]
    fn an_origin_is_a_scheme_a_host_and_a_port() {
        for (one, other, expected) in [
            ("http://a", "http://a", true),
            ("http://a", "http://A:80", true),
            ("https://a:443", "https://a", true),
            ("https://a/", "https://a", true),
            ("http://[::1]:8080", "http://[::1]:8080", true),
            ("http://a", "https://a", false),
            ("http://a:443", "https://a", false),
            ("http://a:8080", "http://a:8081", false),
            ("http://a", "http://b", false),
            ("http://a", "null", false),
            ("ftp://a", "ftp://a", false),
            ("http://", "http://", false),
        ] {
            assert_eq!(is_same_origin(one, other), expected, "{one} {other}");
            assert_eq!(is_same_origin(other, one), expected, "{other} {one}");
        }
    }

    #[test]
    fn the_same_host_over_another_scheme_is_another_origin() {
        let host = ("host", "locks");
        let (http, https) = (("origin", "http://locks"), ("origin", "https://locks"));
        let (own, cross) = (("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site"));
        for (scheme, headers, is_good) in [
            ("http", &[host, http][..], true),
            ("http", &[host, https], false),
            ("https", &[host, https], true),
            ("https", &[host, http], false),
            // A page cannot set this header.
            ("http", &[host, https, own], true),
            ("https", &[host, http, own], false),
            ("http", &[host, https, cross], false),
        ] {
            let mut request = Request::builder().method("POST").uri("/v1/revoke");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let hosts = ["locks".to_owned()];
            let scheme =
                if scheme == "http" { &|| "http" } else { &(|| "https") as &dyn Fn() -> _ };
            let known = Known { hosts: &hosts, scheme, ..KNOWN };
            let checked = check(&request.body(()).expect("a request"), &known);
            assert_eq!(checked.is_ok(), is_good, "{headers:?}: {checked:?}");
        }
    }

    fn checked(line: &str, headers: &[(&str, &str)]) -> Result<(), Foreign> {
        let (method, path) = line.split_once(' ').expect("a method and a path");
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (hosts, origins) = (["locks".to_owned()], ["https://app.example".to_owned()]);
        check(
            &request.body(()).expect("a request"),
            &Known { hosts: &hosts, origins: &origins, ..KNOWN },
        )
    }

    #[test]
    fn only_names_of_this_server_are_answered() {
        for host in [
            "127.0.0.1:8080",
            "[::1]:8080",
            "10.1.2.3",
            "localhost:1",
            "LOCALHOST",
            "a.localhost",
            "localhost.",
            "locks",
            "LOCKS:80",
            "locks.example.org",
            "locks.example.org:443",
        ] {
            assert_eq!(checked("GET /v1/locks", &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "notlocalhost",
            "localhost.evil.example",
            "locks.evil",
            "127.0.0.1.evil",
            "1",
        ] {
            let refused = checked("GET /v1/locks", &[("host", host)]);
            assert!(matches!(refused, Err(Foreign::Host(_))), "{host}: {refused:?}");
        }
    }

    #[test]
    fn pages_of_other_origins_may_not_ask() {
        let host = ("host", "localhost:8080");
        let visit = [
            host,
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        for (line, headers, is_good) in [
            ("POST /v1/revoke", &[host][..], true),
            ("POST /v1/revoke", &[host, ("origin", "http://localhost:8080")], true),
            ("POST /v1/revoke", &[host, ("origin", "https://locks.example.org")], true),
            ("POST /v1/revoke", &[host, ("origin", "https://app.example")], true),
            (
                "POST /v1/revoke",
                &[host, ("origin", "https://app.example"), ("sec-fetch-site", "cross-site")],
                true,
            ),
            ("POST /v1/revoke", &[host, ("origin", "http://localhost:3000")], false),
            ("POST /v1/revoke", &[host, ("origin", "null")], false),
            ("POST /v1/revoke", &[host, ("origin", "")], false),
            ("POST /v1/revoke", &[host, ("sec-fetch-site", "same-origin")], true),
            ("POST /v1/revoke", &[host, ("sec-fetch-site", "none")], true),
            ("POST /v1/revoke", &[host, ("sec-fetch-site", "same-site")], false),
            ("POST /v1/revoke", &[host, ("sec-fetch-site", "cross-site")], false),
            ("POST /v1/revoke", &[host, ("sec-fetch-site", "new-kind")], false),
            ("GET /f?lock=acquire", &[host, ("sec-fetch-site", "cross-site")], false),
            ("GET /docs", &visit, true),
            ("GET /lock/page", &visit, true),
            ("GET /console/callback", &visit, true),
            ("GET /file", &visit, false),
            ("POST /docs", &visit, false),
            ("GET /docs", &visit[..2], false),
        ] {
            let checked = checked(line, headers);
            assert_eq!(checked.is_ok(), is_good, "{line} {headers:?}: {checked:?}");
        }
    }
}
