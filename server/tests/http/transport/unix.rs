//! Tests of Unix sockets.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use leasehold_server::http::Listen;
use leasehold_server::serve::{Server, Settings};
use leasehold_testkit::{Local, folder, settings};
use tokio::net::{UnixListener, UnixStream};

use crate::transport::{ask, status};

fn on(path: &Path) -> Settings {
    let mut settings = settings(None);
    settings.listen.push(Listen::Unix(path.into()));
    settings
}

async fn refused(settings: Settings) -> String {
    match Server::start(settings).await {
        Ok(_) => panic!("it started"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_unix_socket_has_its_rights_any_host_and_is_gone_at_the_end() {
    let folder = folder();
    let path = folder.path().join("a.sock");
    for mode in [0o660, 0o600] {
        let mut settings = on(&path);
        settings.http.unix_socket_mode = mode;
        let local = Local::start(settings).await;
        let facts = std::fs::metadata(&path).unwrap();
        assert_eq!(facts.permissions().mode() & 0o777, mode);
        let mut stream = UnixStream::connect(&path).await.unwrap();
        let request = "GET /v1/locks/x HTTP/1.1\r\nHost: docker.example\r\n\r\n";
        assert_eq!(status(&ask(&mut stream, request).await), 200);
        let foreign = "GET /v1/locks/x HTTP/1.1\r\nHost: a\r\nOrigin: https://evil.example\r\n\r\n";
        assert_eq!(status(&ask(&mut stream, foreign).await), 403, "that is still checked");
        let mut tcp = tokio::net::TcpStream::connect(local.address).await.unwrap();
        assert_eq!(status(&ask(&mut tcp, request).await), 421);
        drop((stream, tcp));
        local.stop().await;
        assert!(!path.exists());
    }
}

#[tokio::test]
async fn only_a_dead_socket_is_replaced() {
    let folder = folder();
    let path = folder.path().join("a.sock");
    let living = UnixListener::bind(&path).unwrap();
    let said = refused(on(&path)).await;
    assert!(said.contains("another server uses this socket"), "{said}");
    drop(living);
    assert!(path.exists(), "what a server leaves that was killed");
    let local = Local::start(on(&path)).await;
    assert!(UnixStream::connect(&path).await.is_ok());
    let said = refused(on(&path)).await;
    assert!(said.contains("another server uses"), "{said}");
    assert!(UnixStream::connect(&path).await.is_ok(), "and is left alone");
    local.stop().await;
    std::fs::write(&path, "precious").unwrap();
    let said = refused(on(&path)).await;
    assert!(said.contains("is not a socket"), "{said}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn a_server_on_a_unix_socket_alone_serves() {
    let folder = folder();
    let path = folder.path().join("a.sock");
    let mut settings = on(&path);
    settings.listen.remove(0);
    let server = Server::start(settings).await.unwrap();
    assert_eq!(server.address(), None);
    let mut stream = UnixStream::connect(&path).await.unwrap();
    assert_eq!(status(&ask(&mut stream, &crate::transport::acquire("db", "one", 0)).await), 200);
    server.stop().await.unwrap();
}
