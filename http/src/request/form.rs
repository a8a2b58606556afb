//! Checks the form of a request: its host and its framing. Requests that two programs could interpret differently are
//! rejected.

use axum::http::header::{CONTENT_LENGTH, HOST, ORIGIN, TRANSFER_ENCODING};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderName, HeaderValue, Request, Uri, Version};
use leasehold_base::host::is_host;

use super::browser::{SEC_FETCH_DEST, SEC_FETCH_MODE, SEC_FETCH_SITE};

/// Removes extra slashes at the start of the path: clients whose base URL ends with a slash send `//v1/...`. Later
/// slashes can be part of a name and stay.
#[inline]
pub fn drop_extra_slashes(uri: &mut Uri) {
    if !uri.path().starts_with("//") {
        return;
    }
    let mut parts = uri.clone().into_parts();
    let path = parts.path_and_query.as_ref().map_or("/", PathAndQuery::as_str);
    let path = format!("/{}", path.trim_start_matches('/'));
    parts.path_and_query = path.parse().ok();
    if let Ok(shorter) = Uri::from_parts(parts) {
        *uri = shorter;
    }
}

/// Returns whether this is the path of a health check.
pub fn is_health(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz" | "/leaderz" | "/health")
}

/// Checks the form of a request. Over a Unix socket an HTTP/1.0 request needs no host.
pub fn check<B>(request: &Request<B>, is_unix: bool) -> Result<(), String> {
    check_host(request, is_unix)?;
    check_single(request)?;
    check_framing(request)
}

fn check_host<B>(request: &Request<B>, is_unix: bool) -> Result<(), String> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (host, is_repeated) = (hosts.next(), hosts.next().is_some());
    let authority = request.uri().authority();
    if is_repeated {
        return Err("there is more than one Host header".into());
    }
    match (host, authority) {
        // An HTTP/1.0 health probe sends no Host header, and gets nothing but the health of the server.
        (None, None) if is_probe(request) => Ok(()),
        (None, None) if is_unix && request.version() == Version::HTTP_10 => Ok(()),
        (None, None) => Err(NO_HOST.into()),
        (None, Some(_)) if request.version() == Version::HTTP_11 => Err(NO_HOST.into()),
        (Some(host), _) if !is_host(host.as_bytes()) => {
            Err(format!("the Host header is not HOST or HOST:PORT: {}", shown(host)))
        }
        (_, Some(authority)) if !is_host(authority.as_str().as_bytes()) => {
            Err("the request's target is not for HOST or HOST:PORT".into())
        }
        (Some(host), Some(authority))
            if !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()) =>
        {
            Err(format!(
                "the Host header, {}, is not the host of the request's target",
                shown(host)
            ))
        }
        _ => Ok(()),
    }
}

const NO_HOST: &str = "the Host header is missing";

fn is_probe<B>(request: &Request<B>) -> bool {
    request.version() == Version::HTTP_10 && is_health(request.uri().path())
}

/// Rejects duplicates of headers that browsers send once: two programs could each use a different one.
fn check_single<B>(request: &Request<B>) -> Result<(), String> {
    let headers = request.headers();
    if headers.len() == headers.keys_len() {
        // No header occurs twice.
        return Ok(());
    }
    let single: [HeaderName; 4] = [ORIGIN, SEC_FETCH_SITE, SEC_FETCH_MODE, SEC_FETCH_DEST];
    match single.iter().find(|name| headers.get_all(*name).iter().nth(1).is_some()) {
        None => Ok(()),
        Some(name) => Err(format!("there is more than one {name} header")),
    }
}

fn shown(host: &HeaderValue) -> String {
    let text = String::from_utf8_lossy(host.as_bytes());
    format!("{:?}", text.chars().take(100).collect::<String>())
}

/// Rejects transfer codings other than `chunked`, because the server would misread the body.
///
/// The result is 400, the client's mistake, and not 501, which a proxy would count as a failure of this server.
fn check_framing<B>(request: &Request<B>) -> Result<(), String> {
    let mut codings = request.headers().get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        // Such a request never comes from a socket: the parser would have dropped one of the two headers.
        _ if request.headers().contains_key(CONTENT_LENGTH) => {
            Err("there are both Content-Length and Transfer-Encoding".into())
        }
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err("Transfer-Encoding may only be chunked".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_are_dropped_at_the_start_only() {
        for (asked, expected) in [
            ("/v1/claims/", "/v1/claims/"),
            ("//v1/claims/?a=//b", "/v1/claims/?a=//b"),
            ("////v1//x//", "/v1//x//"),
            ("//", "/"),
            ("/", "/"),
            ("/?a", "/?a"),
            ("//?a", "/?a"),
            ("http://host//v1/x", "http://host/v1/x"),
        ] {
            let mut uri: Uri = asked.parse().expect("a target");
            drop_extra_slashes(&mut uri);
            assert_eq!(uri.to_string(), expected, "{asked}");
        }
    }

    fn checked(version: Version, target: &str, headers: &[(&str, &str)]) -> Result<(), String> {
        let mut request = Request::builder().version(version).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&request.body(()).expect("a request"), false)
    }

    #[test]
    fn a_request_says_once_whom_it_is_for() {
        let (v10, v11, v2) = (Version::HTTP_10, Version::HTTP_11, Version::HTTP_2);
        let (a, b) = (("host", "a"), ("host", "b"));
        for (version, target, headers, is_good) in [
            (v11, "/", &[a][..], true),
            (v11, "/", &[], false),
            (v11, "/", &[a, a], false),
            (v11, "/", &[a, b], false),
            (v11, "/", &[("host", "")], false),
            (v11, "http://A/", &[a], true),
            (v11, "http://b/", &[a], false),
            (v11, "http://a/", &[], false),
            (v11, "http://user@a/", &[a], false),
            (v10, "/", &[], false),
            (v10, "/", &[a], true),
            (v10, "/healthz", &[], true),
            (v10, "/", &[a, b], false),
            (v11, "/", &[a, ("origin", "http://a")], true),
            (v11, "/", &[a, ("origin", "http://a"), ("origin", "http://a")], false),
            (v11, "/", &[a, ("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")], false),
            (v11, "/", &[a, ("sec-fetch-mode", "cors"), ("sec-fetch-mode", "navigate")], false),
            (v2, "http://a/", &[], true),
            (v2, "http://a/", &[a], true),
            (v2, "http://a/", &[b], false),
            (v2, "http://user@a/", &[], false),
            (v2, "/", &[], false),
        ] {
            let checked = checked(version, target, headers);
            assert_eq!(checked.is_ok(), is_good, "{version:?} {target} {headers:?}: {checked:?}");
        }
    }

    #[test]
    fn a_unix_socket_needs_no_host() {
        for (version, is_good) in [(Version::HTTP_10, true), (Version::HTTP_11, false)] {
            let request = Request::builder().version(version).uri("/v1/locks").body(());
            assert_eq!(check(&request.expect("a request"), true).is_ok(), is_good, "{version:?}");
        }
    }

    #[test]
    fn a_length_and_a_coding_do_not_go_together() {
        let (host, length) = (("host", "a"), ("content-length", "1"));
        let chunked = ("transfer-encoding", "chunked");
        assert!(checked(Version::HTTP_11, "/", &[host, length]).is_ok());
        assert!(checked(Version::HTTP_11, "/", &[host, length, chunked]).is_err());
    }

    #[test]
    fn chunked_is_the_only_coding() {
        let host = ("host", "a");
        for (codings, is_good) in [
            (&["chunked"][..], true),
            (&["Chunked"], true),
            (&["gzip, chunked"], false),
            (&["gzip", "chunked"], false),
            (&["chunked", "chunked"], false),
            (&["identity"], false),
            (&[""], false),
        ] {
            let codings = codings.iter().map(|coding| ("transfer-encoding", *coding));
            let headers: Vec<_> = [host].into_iter().chain(codings).collect();
            assert_eq!(checked(Version::HTTP_11, "/", &headers).is_ok(), is_good, "{headers:?}");
        }
    }
}
