//! Tests that a follower's Redis listener forwards its connections to the leader.

use std::net::SocketAddr;

use leasehold_server::dialect::Dialect;
use leasehold_server::serve::Settings;
use leasehold_testkit::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::peer::world::{Node, PATIENCE, World};

fn with_redis(mut settings: Settings) -> Settings {
    settings.dialect.redis.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    settings
}

async fn connect(node: &Node) -> TcpStream {
    let address = node.server.listening(Dialect::Redis).expect("it listens");
    TcpStream::connect(address).await.expect("a connection")
}

/// Sends a command and reads one line. Returns an empty string if the connection is closed.
async fn ask(stream: &mut TcpStream, line: &str) -> String {
    let asking = async {
        let words: Vec<_> = line.split(' ').collect();
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n") {
            let mut byte = [0];
            if stream.read(&mut byte).await.ok()? == 0 {
                return None;
            }
            bytes.push(byte[0]);
        }
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    let answer = tokio::time::timeout(PATIENCE, asking).await;
    answer.expect("in time").unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_clients_of_redis_can_ask_any_server() {
    let world = World::new().await;
    let leader = world.start(with_redis(world.settings("n1", "n1"))).await.expect("a start");
    leader.until("/leaderz", 200).await;
    let follower = world.start(with_redis(world.settings("n2", "n2"))).await.expect("a start");
    follower.until("/readyz", 200).await;
    let (mut there, mut here) = (connect(&leader).await, connect(&follower).await);
    assert_eq!(ask(&mut here, "PING").await, "+PONG");
    assert_eq!(ask(&mut here, "SET job me NX PX 60000").await, "+OK");
    assert_eq!(ask(&mut there, "SET job other NX PX 60000").await, "$-1");
    let seen = leader.client.get("/v1/namespaces/redis/locks/job").await;
    assert_eq!(seen.get("held"), &json!(true), "{seen:?}");
    // When the leader stops, its forwarded connections close. A new connection reaches the next leader.
    leader.server.stop().await.expect("a good end");
    follower.until("/leaderz", 200).await;
    assert_eq!(ask(&mut here, "PING").await, "");
    let mut again = connect(&follower).await;
    assert_eq!(ask(&mut again, "SET job other NX PX 60000").await, "$-1", "it is still held");
    assert_eq!(ask(&mut again, "SET job2 me NX PX 60000").await, "+OK");
}
