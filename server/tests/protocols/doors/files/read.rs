//! Tests of reading files: in full, in ranges, or not at all.

use hyper::Method;

use crate::doors::files::{Home, check_refused};

const DIGITS: &str = "0123456789";

async fn with_digits() -> (Home, String) {
    let home = Home::start().await;
    let editor = home.editor().await;
    let tag = home.put(&editor, "/f.txt", DIGITS).await.headers["etag"].clone();
    (home, tag.to_str().expect("text").into())
}

#[tokio::test]
async fn a_range_is_answered_with_that_part() {
    let (home, tag) = with_digits().await;
    for (range, part, content_range) in [
        ("bytes=0-3", "0123", "bytes 0-3/10"),
        ("bytes=4-", "456789", "bytes 4-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=8-100", "89", "bytes 8-9/10"),
    ] {
        let headers = [("range", range), ("if-range", tag.as_str())];
        let got = home.send_with(None, Method::GET, "/f.txt", &headers, "").await;
        assert_eq!((got.status, got.text.as_str()), (206, part), "{range}");
        assert_eq!(got.headers["content-range"], content_range);
        assert_eq!(got.headers["content-length"], part.len().to_string().as_str());
    }
    for (headers, why) in [
        (vec![("range", "bytes=0-3"), ("if-range", "\"other\"")], "another content"),
        (vec![("range", "bytes=0-1,4-5")], "several parts"),
        (vec![("range", "lines=1-2")], "another unit"),
    ] {
        let got = home.send_with(None, Method::GET, "/f.txt", &headers, "").await;
        assert_eq!((got.status, got.text.as_str()), (200, DIGITS), "{why}");
    }
    let headers = [("range", "bytes=10-")];
    let got = home.send_with(None, Method::GET, "/f.txt", &headers, "").await;
    check_refused(&got, 416, "10 bytes");
    assert_eq!(got.headers["content-range"], "bytes */10");
}

#[tokio::test]
async fn a_reader_that_has_it_is_told_so() {
    let (home, tag) = with_digits().await;
    for method in [Method::GET, Method::HEAD] {
        let headers = [("if-none-match", tag.as_str())];
        let got = home.send_with(None, method.clone(), "/f.txt", &headers, "").await;
        assert_eq!((got.status, got.text.as_str()), (304, ""));
        assert_eq!(got.headers["etag"], tag.as_str());
        let headers = [("if-match", "\"other\"")];
        let got = home.send_with(None, method, "/f.txt", &headers, "").await;
        assert_eq!(got.status, 412);
    }
    let modified = home.get("/f.txt").await.headers["last-modified"].clone();
    let headers = [("if-modified-since", modified.to_str().expect("text"))];
    let got = home.send_with(None, Method::GET, "/f.txt", &headers, "").await;
    assert_eq!(got.status, 304);
}

#[tokio::test]
async fn head_says_everything_but_the_content() {
    let (home, tag) = with_digits().await;
    let got = home.send(None, Method::HEAD, "/f.txt", "").await;
    assert_eq!((got.status, got.text.as_str()), (200, ""));
    for (header, value) in [
        ("content-length", "10"),
        ("content-type", "text/plain"),
        ("accept-ranges", "bytes"),
        ("etag", &tag),
        ("cache-control", "no-cache"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "sandbox; default-src 'none'"),
    ] {
        assert_eq!(got.headers[header], value, "{header}");
    }
    assert_eq!(home.send(None, Method::HEAD, "/missing", "").await.status, 404);
    assert_eq!(home.send(None, Method::HEAD, "/", "").await.status, 200);
}

#[tokio::test]
async fn a_large_file_comes_back_as_it_was() {
    let home = Home::start().await;
    let editor = home.editor().await;
    let large: String = (0..400_000).map(|n| format!("{n:07}\n")).collect();
    let written = home.put(&editor, "/large", &large).await;
    assert_eq!((written.status, written.number("size")), (201, 3_200_000));
    assert!(home.content("/large").await.as_deref() == Some(&large));
    let headers = [("range", "bytes=262140-786450")];
    let part = home.send_with(None, Method::GET, "/large", &headers, "").await;
    assert!(part.text == large[262_140..=786_450]);
}

#[tokio::test]
async fn limit_and_cursor_are_for_folders() {
    let (home, _) = with_digits().await;
    for query in ["limit=1", "cursor=a"] {
        check_refused(&home.get(&format!("/f.txt?{query}")).await, 400, "folder");
    }
}
