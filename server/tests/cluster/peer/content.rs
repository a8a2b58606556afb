//! Tests that dialects that store content are disabled in a cluster, and that their responses explain why.

use leasehold_server::dialect::ALL;
use leasehold_server::serve::Settings;
use leasehold_testkit::{Method, Response, json};

use crate::peer::world::{Node, World};

/// The first request of a client, for each such dialect.
const DOORS: [(&str, &str, &str); 8] = [
    ("terraform", "GET", "/terraform/prod"),
    ("terraform", "LOCK", "/terraform/prod"),
    ("terraform", "POST", "/terraform/prod?ID=1"),
    ("lfs", "POST", "/lfs/team/repo/locks"),
    ("lfs", "POST", "/lfs/team/repo/objects/batch"),
    ("dav", "PROPFIND", "/dav/"),
    ("dav", "LOCK", "/dav/notes.txt"),
    ("files", "PUT", "/notes.txt"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doors_that_keep_content_are_off_and_say_why() {
    let world = World::new().await;
    let start = async |name: &str| {
        let every = Settings { dialects: ALL.to_vec(), ..world.settings(name, name) };
        world.start(every).await.expect("a start")
    };
    let leader = start("n1").await;
    leader.until("/leaderz", 200).await;
    let follower = start("n2").await;
    follower.until("/readyz", 200).await;
    for (dialect, method, path) in DOORS {
        for node in [&leader, &follower] {
            let refused = ask(node, method, path).await;
            let why = &refused.text;
            assert_eq!(refused.status, 404, "{method} {path}: {why}");
            assert!(
                why.contains(&format!("the dialect {dialect} is off")),
                "{method} {path}: {why}"
            );
            assert!(why.contains("one server of the cluster (--store)"), "{method} {path}: {why}");
        }
    }
    let unknown = ask(&leader, "GET", "/nosuch").await.text;
    assert!(unknown.contains("no such path. If a file was meant: the dialect files"), "{unknown}");
    let locks = leader.client.get("/v1/locks").await;
    assert_eq!(locks.get("locks"), &json!([]), "nothing was locked");
}

async fn ask(node: &Node, method: &str, path: &str) -> Response {
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    let body = r#"{"ID": "1", "path": "a.bin"}"#;
    node.client.send_with(method, path, &[], body).await.expect("an answer")
}
