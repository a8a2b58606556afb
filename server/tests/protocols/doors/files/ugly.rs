//! Tests of malformed requests.

use hyper::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::doors::files::{Home, check_refused};

/// Sends raw bytes and returns everything the server sends back.
pub(crate) async fn raw(home: &Home, request: &str) -> String {
    let mut stream = TcpStream::connect(home.local.address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_method_a_file_does_not_know_is_405() {
    let home = Home::start().await;
    for method in [Method::OPTIONS, Method::PATCH, Method::TRACE] {
        for path in ["/f", "/", "/files/f", "/files/f?lock=acquire", "/f?limit=1&what=else"] {
            // At the root, `OPTIONS` belongs to WebDAV, which announces itself there.
            if method == Method::OPTIONS && path == "/" {
                continue;
            }
            let refused = home.send(None, method.clone(), path, "").await;
            check_refused(&refused, 405, "method");
            assert_eq!(refused.headers["allow"], "GET,HEAD,PUT,DELETE,POST");
        }
    }
    for (path, allow) in [
        ("/auth/session", "DELETE,GET,HEAD,POST"),
        ("/auth/sessions", "GET,HEAD"),
        ("/admin/locks", "GET,HEAD"),
        ("/admin/locks/f", "DELETE"),
    ] {
        let refused = home.send(None, Method::PUT, path, "").await;
        check_refused(&refused, 405, "method");
        let mut allowed: Vec<_> =
            refused.headers["allow"].to_str().expect("text").split(',').collect();
        allowed.sort_unstable();
        assert_eq!(allowed.join(","), allow, "{path}");
    }
}

#[tokio::test]
async fn an_unknown_parameter_is_refused_so_that_a_misspelt_lock_is_not_a_read() {
    let home = Home::start().await;
    let editor = home.editor().await;
    home.put(&editor, "/f", "x").await;
    for query in ["lok=acquire", "v=1", "LOCK=acquire", "limit=1&limit=2"] {
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let path = format!("/f?{query}");
            let refused = home.send(Some(&editor), method, &path, "new").await;
            assert_eq!(refused.status, 400, "{query}: {refused:?}");
        }
    }
    for query in ["limit=1", "cursor=x"] {
        let refused = home.put(&editor, &format!("/f?{query}"), "new").await;
        check_refused(&refused, 400, "reading a folder");
    }
    assert_eq!(home.content("/f").await.as_deref(), Some("x"));
}

#[tokio::test]
async fn a_body_that_is_announced_but_refused_is_not_read() {
    let home = Home::start().await;
    let head =
        "PUT /f HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\nexpect: 100-continue\r\n\r\n";
    let mut stream = TcpStream::connect(home.local.address).await.expect("a connection");
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 401");
}

#[tokio::test]
async fn what_is_no_utf8_is_no_session_and_no_path() {
    let home = Home::start().await;
    let answer = raw(
        &home,
        "PUT /f HTTP/1.1\r\nhost: x\r\nauthorization: Bearer \u{e9}\r\nconnection: close\r\n\r\n",
    );
    assert!(answer.await.starts_with("HTTP/1.1 401"));
    let answer = raw(&home, "GET /f\u{e9} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
}
