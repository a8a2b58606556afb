//! Tests of the metrics listener.

use leasehold_server::http::Listen;
use tokio::net::TcpStream;

use crate::transport::{World, ask, status};

#[tokio::test]
async fn it_serves_only_metrics_and_health_without_authentication() {
    let world = World::with(|settings, folder| {
        let auth = folder.join("auth.toml");
        std::fs::write(&auth, "version = 1\n").unwrap();
        settings.auth_file = Some(auth);
        settings.metrics_listen = Some(Listen::Http(([127, 0, 0, 1], 0).into()));
    })
    .await;
    let address = world.local.server.metrics_listener().unwrap().address().unwrap();
    for (path, here, elsewhere) in [
        ("/metrics", 200, 401),
        ("/healthz", 200, 200),
        ("/livez", 200, 200),
        ("/readyz", 200, 200),
        ("/leaderz", 200, 200),
        ("/v1/locks", 404, 401),
        ("/openapi.json", 404, 401),
        ("/lock/page", 404, 401),
        ("/", 404, 401),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut stream = TcpStream::connect(address).await.unwrap();
        let answer = ask(&mut stream, &request).await;
        assert_eq!(status(&answer), here, "{path}: {answer}");
        let mut stream = TcpStream::connect(world.local.address).await.unwrap();
        let answer = ask(&mut stream, &request).await;
        assert_eq!(status(&answer), elsewhere, "{path}: {answer}");
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    let answer = ask(&mut stream, &crate::transport::acquire("db", "one", 0)).await;
    assert!(status(&answer) == 404 && answer.contains("only /metrics"), "{answer}");
    let wrong = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer lh_a_b\r\n\r\n";
    let mut stream = TcpStream::connect(address).await.unwrap();
    assert_eq!(status(&ask(&mut stream, wrong).await), 200, "no authentication");
    world.local.stop().await;
}
