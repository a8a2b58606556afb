//! The commands of the Redis protocol.

use leasehold_server::dialect::Dialect;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::Need::{self, *};
use super::{ELSEWHERE, PRINCIPALS, allows};
use crate::auth::Scene;

/// Hashes of the redis-py scripts that delete or extend a key if its value matches.
const DELETE: &str = "EVALSHA c3f8721cbb97f72bc19e972846bd7aaf91901658 1 x mine";
const EXTEND: &str = "EVALSHA 1cac51482acf5858da00f6d685d68f886cd6b6b2 1 x mine 5000";

/// Commands, each with its requirement. The key `x` is held.
const COMMANDS: [(&str, Need); 21] = [
    ("PING", Authenticated),
    ("HELLO 3", Authenticated),
    ("SELECT 0", Authenticated),
    ("CLIENT ID", Authenticated),
    ("INFO", Authenticated),
    ("SCRIPT EXISTS x", Authenticated),
    ("QUIT", Nothing),
    ("SET x mine NX PX 60000", Acquire),
    ("SET new mine NX PX 60000", Acquire),
    ("SETNX x mine", Acquire),
    ("GET x", Read),
    ("TTL x", Read),
    ("PTTL x", Read),
    ("EXISTS x", Read),
    ("EXISTS new x", Read),
    ("DEL x", Revoke),
    ("EXPIRE x 5", Revoke),
    ("PEXPIRE x 0", Revoke),
    ("ZREM x mine", Own),
    (DELETE, Own),
    (EXTEND, Acquire),
];

/// Returns the first line of the reply to a command, as this principal.
async fn reply(scene: &Scene, who: &str, command: &str) -> String {
    let address = scene.local.server.listening(Dialect::Redis).expect("it listens");
    let mut stream = BufReader::new(TcpStream::connect(address).await.expect("a connection"));
    let mut line = String::new();
    if let Some(key) = scene.keys.get(who) {
        stream.write_all(format!("AUTH {}\r\n", key.text).as_bytes()).await.expect("sent");
        stream.read_line(&mut line).await.expect("a reply");
        assert_eq!(line, "+OK\r\n", "{who}");
    }
    line.clear();
    stream.write_all(format!("{command}\r\n").as_bytes()).await.expect("sent");
    stream.read_line(&mut line).await.expect("a reply");
    line.trim_end().to_owned()
}

/// Sends the command as this principal. Returns what is wrong with the reply.
async fn mistake(scene: &Scene, command: &str, need: Need, who: &str) -> Option<String> {
    let held = reply(scene, "admin", "SET x held NX PX 60000").await;
    assert!(held == "+OK" || held == "$-1", "{held}");
    let reply = reply(scene, who, command).await;
    let is_right = match who {
        "" if need != Nothing => reply.starts_with("-NOAUTH"),
        _ if allows(who, need) => !reply.starts_with('-'),
        _ => reply.starts_with("-NOPERM"),
    };
    (!is_right).then(|| format!("{command} as {who:?}: {reply}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_asks_for_its_right() {
    let scene = super::scene().await;
    let mut wrong = Vec::new();
    for (command, need) in COMMANDS {
        for (who, _) in PRINCIPALS {
            wrong.extend(mistake(&scene, command, need, who).await);
        }
        wrong.extend(mistake(&scene, command, need, ELSEWHERE).await);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    scene.stop().await;
}
