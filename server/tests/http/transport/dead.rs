//! Tests of waiters whose clients have disconnected, over TLS and Unix sockets. The tests in `delivery` cover what
//! happens to grants.

use leasehold_server::http::Listen;
use leasehold_testkit::json;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::transport::{World, acquire, is_held, until_waiting};

/// How a client disconnects.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Going {
    /// Closes the connection without the TLS closing message.
    Close,
    /// Sends the TLS closing message, and closes the connection.
    Goodbye,
    /// Sends more bytes after its request, and closes the connection.
    BytesBehind,
    /// Sends a complete second request, and closes the connection.
    Pipelined,
    /// Resets the connection.
    Break,
}

const KINDS: [Going; 5] =
    [Going::Close, Going::Goodbye, Going::BytesBehind, Going::Pipelined, Going::Break];

async fn wait_by(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), going: Going) {
    let request = acquire("db", "dead", 60_000);
    stream.write_all(request.as_bytes()).await.unwrap();
    match going {
        Going::BytesBehind => stream.write_all(b"\r\n").await.unwrap(),
        Going::Pipelined => stream.write_all(request.as_bytes()).await.unwrap(),
        _ => {}
    }
    stream.flush().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_waiter_leaves_its_queue() {
    let folder = leasehold_testkit::folder();
    let path = folder.path().join("a.sock");
    let world = World::with(|settings, _| settings.listen.push(Listen::Unix(path.clone()))).await;
    for (going, is_unix) in KINDS.into_iter().flat_map(|going| [(going, false), (going, true)]) {
        let held = world.local.client.acquire("db", "holder", 60_000, json!({})).await;
        assert_eq!(held.status, 200, "{going:?}");
        if is_unix {
            let mut stream = UnixStream::connect(&path).await.unwrap();
            wait_by(&mut stream, going).await;
            until_waiting(&world.local, "db", 1).await;
            if going == Going::Goodbye {
                stream.shutdown().await.unwrap();
            }
        } else {
            let mut stream = world.connect().await;
            wait_by(&mut stream, going).await;
            until_waiting(&world.local, "db", 1).await;
            match going {
                Going::Goodbye => stream.shutdown().await.unwrap(),
                Going::Break => stream.get_ref().0.set_zero_linger().unwrap(),
                _ => {}
            }
        }
        until_waiting(&world.local, "db", 0).await;
        assert_eq!(world.local.client.release(&held, json!({})).await.status, 200);
        assert!(!is_held(&world.local, "db").await, "{going:?}");
    }
    world.local.stop().await;
}
