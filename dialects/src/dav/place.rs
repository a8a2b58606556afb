//! Converts between file paths and URLs below `/dav`.

use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri, header};

use super::error::Refusal;
use crate::content::FilePath;

/// Prefix of all paths of this dialect.
const PREFIX: &str = "/dav";

/// Returns whether a requested path ends with a slash, so that it can only be a folder.
pub(super) fn says_folder(raw: &str) -> bool {
    raw.ends_with('/')
}

/// Returns the path of the file or folder that a requested path names.
pub(super) fn parse(raw: &str) -> Result<FilePath, Refusal> {
    let rest = raw.strip_prefix(PREFIX).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let rest = rest.ok_or_else(|| Refusal::new(StatusCode::BAD_GATEWAY, OUTSIDE))?;
    let path = if rest.is_empty() { FilePath::parse("/") } else { FilePath::parse(rest) };
    Ok(path?.into_node())
}

const OUTSIDE: &str = "the path is not below /dav of this server";

/// Returns the target in the header `Destination`, which is a path or a URL of this server, and whether it ends with a
/// slash, so that it can only be a folder.
pub(super) fn destination(parts: &Parts) -> Result<(FilePath, bool), Refusal> {
    let missing = || Refusal::invalid("the header Destination is missing");
    let text = parts.headers.get("destination").ok_or_else(missing)?;
    let text = text.to_str().map_err(|_| Refusal::invalid("Destination is not plain text"))?;
    Ok((resource(text, &parts.headers)?, says_folder(text)))
}

/// Returns the path of the file or folder that a path or URL in a header names.
pub(super) fn resource(text: &str, headers: &HeaderMap) -> Result<FilePath, Refusal> {
    let uri: Uri =
        text.parse().map_err(|_| Refusal::invalid("an address in a header is malformed"))?;
    let elsewhere =
        || Refusal::new(StatusCode::BAD_GATEWAY, "the address is that of another server");
    let is_http =
        |scheme: &str| ["http", "https"].iter().any(|http| scheme.eq_ignore_ascii_case(http));
    if !uri.scheme_str().is_none_or(is_http) {
        return Err(elsewhere());
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    if let (Some(meant), Some(host)) = (uri.authority(), host)
        && !is_same(meant, host)
    {
        return Err(elsewhere());
    }
    parse(uri.path())
}

/// Returns whether a URL names the host of the request. A proxy can add or hide a port, so ports differ only if both
/// are present.
fn is_same(meant: &Authority, host: &str) -> bool {
    let Ok(asked) = host.parse::<Authority>() else { return false };
    let ports = [meant.port_u16(), asked.port_u16()];
    let is_port = matches!(ports, [None, _] | [_, None]) || ports[0] == ports[1];
    is_port && meant.host().eq_ignore_ascii_case(asked.host())
}

/// Returns the percent-encoded URL path of a file or folder. The path of a folder ends with a slash.
pub(super) fn href(path: &FilePath, is_folder: bool) -> String {
    let mut href = format!("{PREFIX}{}", path.encoded());
    if is_folder && !href.ends_with('/') {
        href.push('/');
    }
    href
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_below_dav_and_nowhere_else() {
        let of = |raw: &str| parse(raw).map(|path| path.as_str().to_owned());
        for (raw, path) in [
            ("/dav", "/"),
            ("/dav/", "/"),
            ("/dav/a%20b/", "/a b"),
            ("/dav/v1", "/v1"),
            ("/dav/%C3%A9", "/é"),
            ("/dav/dav", "/dav"),
        ] {
            assert_eq!(of(raw).ok().as_deref(), Some(path), "{raw}");
        }
        for (raw, status) in [
            ("/davx", 502),
            ("/files/a", 502),
            ("/dav/..", 400),
            ("/dav/%2e%2e/x", 400),
            ("/dav/a//b", 400),
            ("/dav/.leasehold/x", 400),
            ("/dav/a%00", 400),
            ("/dav/%ff", 400),
        ] {
            assert_eq!(of(raw).err().map(|why| why.status().as_u16()), Some(status), "{raw}");
        }
    }

    #[test]
    fn a_destination_is_on_this_server() {
        let headers: HeaderMap =
            [(header::HOST, "me:8080".parse().expect("a host"))].into_iter().collect();
        for (text, status) in [
            ("http://me:8080/dav/x", None),
            ("https://ME/dav/x", None),
            ("/dav/x", None),
            ("http://me:1/dav/x", Some(502)),
            ("ftp://me:8080/dav/x", Some(502)),
            ("http://other/dav/x", Some(502)),
            ("http://me:8080/files/x", Some(502)),
            ("http://me:8080/dav/../x", Some(400)),
            ("", Some(400)),
            ("http://", Some(400)),
        ] {
            let refused = resource(text, &headers).err().map(|why| why.status().as_u16());
            assert_eq!(refused, status, "{text}");
        }
    }
}
