//! Where the URLs of files are: below `/files`, or at the root if no other part of the server uses the path.

use axum::http::Uri;

use super::is_reserved;
use crate::content::{FilePath, NoPath, decode};

/// Returns the path of the file that a request names.
pub(super) fn of(uri: &Uri) -> Result<FilePath, NoPath> {
    let raw = uri.path();
    if let Some(raw) = raw.strip_prefix("/files/") {
        return FilePath::parse(&format!("/{raw}"));
    }
    // Another part of the server reports errors in the rest of such a path.
    if decode(raw).is_some_and(|text| is_of_server(&text)) {
        return Err(NoPath::Reserved);
    }
    FilePath::parse(raw)
}

/// Returns the URL path at which clients can request the file.
pub(super) fn location(path: &FilePath) -> String {
    let prefix = if is_of_server(path.as_str()) { "/files" } else { "" };
    format!("{prefix}{}", path.encoded())
}

fn is_of_server(path: &str) -> bool {
    path.split('/').nth(1).is_some_and(is_reserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(raw: &str) -> Result<String, NoPath> {
        let uri: Uri = raw.parse().expect("a uri");
        super::of(&uri).map(|path| path.as_str().into())
    }

    #[test]
    fn paths_are_decoded_once() {
        for (raw, path) in [
            ("/", "/"),
            ("/a", "/a"),
            ("/a/", "/a/"),
            ("/a%20b/%C3%A9", "/a b/é"),
            ("/a%2Fb", "/a/b"),
            ("/%252e%252e/x", "/%2e%2e/x"),
            ("/...", "/..."),
            ("/files/docs/a", "/docs/a"),
            ("/files/", "/"),
            ("/files/files/x", "/files/x"),
        ] {
            assert_eq!(of(raw).as_deref(), Ok(path), "{raw}");
        }
    }

    #[test]
    fn invalid_paths_are_rejected() {
        let long = format!("/{}", "a".repeat(256));
        let deep = "/abc".repeat(1025);
        for raw in [
            "/..",
            "/../etc/passwd",
            "/a/../b",
            "/%2e%2e/x",
            "/a%2f..%2fb",
            "/.",
            "/a/./b",
            "//",
            "//a",
            "/a//b",
            "/a//",
            "/a%00b",
            "/a%0Ab",
            "/a%7F",
            "/%FF",
            "/%zz",
            "/%",
            "/.leasehold/x",
            "/files/.leasehold",
            "/files/%2e%2e/x",
            "/files//x",
            &long,
            &deep,
        ] {
            assert!(matches!(of(raw), Err(NoPath::Bad(_))), "{raw}: {:?}", of(raw));
        }
    }

    #[test]
    fn a_reserved_name_is_no_file_at_the_root_however_it_is_written() {
        for raw in [
            "/v1/x",
            "/%76%31/x",
            "/lock",
            "/docs/",
            "/files",
            "/console%2Fx",
            "/dav",
            "/v1//",
            "/v1/..",
        ] {
            assert_eq!(of(raw), Err(NoPath::Reserved), "{raw}");
        }
    }

    #[test]
    fn a_location_leads_back() {
        for path in ["/a b/é%.txt", "/docs/x", "/a#b?c", "/x/"] {
            let location = location(&FilePath::plain(path).expect("a path"));
            assert_eq!(of(&location).as_deref(), Ok(path), "{location}");
        }
    }
}
