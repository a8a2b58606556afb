//! Where things are: paths below `/dav`, in requests and in answers.

use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri, header};

use super::error::Refusal;
use crate::content::FilePath;

/// Where all paths of this dialect begin.
const PREFIX: &str = "/dav";

/// The file or folder a path of a request names.
pub(super) fn parse(raw: &str) -> Result<FilePath, Refusal> {
    let rest = raw.strip_prefix(PREFIX).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let rest = rest.ok_or_else(|| Refusal::new(StatusCode::BAD_GATEWAY, OUTSIDE))?;
    let path = if rest.is_empty() { FilePath::parse("/") } else { FilePath::parse(rest) };
    Ok(path?.into_node())
}

const OUTSIDE: &str = "the path is not below /dav of this server";

/// Where something is to go: a path, or an address of this server.
pub(super) fn destination(parts: &Parts) -> Result<FilePath, Refusal> {
    let missing = || Refusal::invalid("the header Destination is missing");
    let text = parts.headers.get("destination").ok_or_else(missing)?;
    let text = text.to_str().map_err(|_| Refusal::invalid("Destination is not plain text"))?;
    resource(text, &parts.headers)
}

/// The file or folder that a path or an address names.
pub(super) fn resource(text: &str, headers: &HeaderMap) -> Result<FilePath, Refusal> {
    let uri: Uri =
        text.parse().map_err(|_| Refusal::invalid("an address in a header is malformed"))?;
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    if let (Some(meant), Some(host)) = (uri.authority(), host)
        && !meant.as_str().eq_ignore_ascii_case(host)
        && !is_same(meant.host(), host)
    {
        return Err(Refusal::new(StatusCode::BAD_GATEWAY, "the address is that of another server"));
    }
    parse(uri.path())
}

/// A proxy in between may have another port.
fn is_same(meant: &str, host: &str) -> bool {
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    meant.eq_ignore_ascii_case(host)
}

/// Where it can be asked for, percent-encoded. A folder's ends with a slash.
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
