//! Tests of leader and follower roles, and of how clients can find the leader.

use std::time::{Duration, Instant};

use leasehold_server::serve::Error;
use leasehold_testkit::{Method, json};

use crate::peer::world::{PATIENCE, World};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_says_who_leads() {
    let world = World::new().await;
    let (leader, follower) = world.pair().await;
    let url = format!("http://{}", leader.address);
    for path in ["/livez", "/readyz", "/healthz"] {
        assert_eq!(leader.client.get(path).await.status, 200, "{path}");
        assert_eq!(follower.client.get(path).await.status, 200, "{path}");
    }
    let asked = follower.client.get("/leaderz").await;
    assert_eq!(asked.status, 503);
    assert_eq!(asked.headers.get("leasehold-leader").expect("it is known"), url.as_str());
    let direct = |node: &crate::peer::world::Node, path: &'static str| {
        let client = node.client.clone();
        async move {
            let headers = [("leasehold-direct", "1")];
            client.send_with(Method::GET, path, &headers, "").await.expect("an answer")
        }
    };
    let refused = direct(&follower, "/v1/locks").await;
    assert_eq!((refused.status, refused.text_of("code")), (421, "NOT_LEADER".into()));
    assert_eq!(refused.headers.get("leasehold-leader").expect("it is known"), url.as_str());
    assert_eq!(refused.get("retryable"), &json!(true));
    assert_eq!(refused.get("may_have_taken_effect"), &json!(false));
    assert_eq!(direct(&leader, "/v1/locks").await.status, 200);
    assert_eq!(direct(&follower, "/v1/history").await.status, 200, "every server knows that");
    // The leader also publishes this in etcd.
    let (said, of_leader) = (world.value("leader"), world.value("node/n1"));
    assert_eq!((&said["node"], &said["address"]), (&json!("n1"), &json!(url)));
    assert_eq!(said["instance"], of_leader["instance"]);
    assert_eq!(of_leader["address"], json!(url));
    let of_follower = world.value("node/n2");
    assert_eq!(of_follower["address"], json!(format!("http://{}", follower.address)));
    assert_eq!(of_follower["formats"], json!([1]));
    assert!(of_follower["seq"].as_u64().is_some_and(|seq| seq >= 1), "{of_follower}");
    // Each server publishes its last record from time to time.
    for n in 0..5 {
        assert_eq!(
            leader.client.acquire(&format!("l{n}"), "a", 60_000, json!({})).await.status,
            200
        );
    }
    let began = Instant::now();
    while world.value("node/n2")["seq"].as_u64().is_none_or(|seq| seq < 6) {
        assert!(began.elapsed() < PATIENCE, "{}", world.value("node/n2"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    follower.server.stop().await.expect("a good end");
    assert_eq!(world.value("node/n2"), json!(null), "it is gone with the server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_without_a_leader_in_reach_is_not_ready_and_holds_what_it_is_asked() {
    let world = World::new().await;
    let (leader, follower) = world.pair().await;
    leader.server.stop().await.expect("a good end");
    follower.until("/leaderz", 200).await;
    // The leader key names a server that is unreachable.
    let absent = json!({"nonce": "0", "node": "n9", "address": "http://n9", "version": "1",
        "peer": "127.0.0.1:9", "peer_key": "k"});
    world.etcd.ctl(&["put", "/test/leader", &absent.to_string()]);
    follower.until("/leaderz", 503).await;
    let ready = follower.client.get("/readyz").await;
    assert_eq!(ready.status, 503);
    assert!(ready.text_of("error").contains("cannot reach a leader"), "{ready:?}");
    assert_eq!(follower.client.get("/livez").await.status, 200);
    let began = Instant::now();
    let look = |accept: &'static str| {
        let client = follower.client.clone();
        async move {
            let headers = [("accept", accept)];
            client.send_with(Method::GET, "/console/cluster", &headers, "").await
        }
    };
    let (held, page, program) = tokio::join!(
        follower.client.acquire("db", "a", 60_000, json!({})),
        look("text/html"),
        look("*/*")
    );
    assert_eq!((held.status, held.text_of("code")), (503, "BUSY".into()), "{held:?}");
    // Browsers get a page that reloads automatically.
    let page = page.expect("an answer");
    assert_eq!(page.status, 503);
    assert_eq!(page.headers.get("retry-after").expect("when"), "3");
    for part in ["The cluster has no leader", "content=\"3;url=/console/cluster\""] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    assert_eq!(program.expect("an answer").text_of("code"), "BUSY");
    assert!(began.elapsed() >= Duration::from_secs(5), "{:?}", began.elapsed());
    // When the follower becomes the leader, it answers the requests that it held. The ttl counts from when the request
    // arrived.
    let asked_at = Instant::now();
    let asking = {
        let client = follower.client.clone();
        tokio::spawn(async move { client.acquire("db", "a", 60_000, json!({})).await })
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!asking.is_finished());
    world.etcd.ctl(&["del", "/test/leader"]);
    let taken = asking.await.expect("no panic");
    assert_eq!(taken.status, 200, "{taken:?}");
    let left = taken.number("expires_after_send_ms");
    // Counted from when the request was sent, the lease is longer by the time the request was held.
    let longest = 60_000 + asked_at.elapsed().as_millis() as u64;
    assert!((60_300..=longest).contains(&left), "{left}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_of_one_name_are_one_too_many() {
    let world = World::new().await;
    let first = world.node("n1").await;
    first.until("/leaderz", 200).await;
    let Err(Error::Store(why)) = world.start(world.settings("n1", "other")).await else {
        panic!("the name is taken");
    };
    let why = why.to_string();
    assert!(why.contains("another server has the name n1"), "{why}");
    assert!(why.contains(&first.address.to_string()), "{why}");
    // A server with this name can start again immediately, even after a crash.
    first.server.stop().await.expect("a good end");
    let key = world.etcd.ctl(&["get", "/test/node/n1"]);
    assert_eq!(key, "");
    let again = world.node("n1").await;
    again.until("/leaderz", 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_come_by_the_network_need_a_secret() {
    let world = World::new().await;
    let mut settings = world.settings("n1", "n1");
    let cluster = settings.cluster.as_mut().expect("it is shared");
    cluster.peer_listen = Some("0.0.0.0:0".parse().expect("an address"));
    let refused = world.start(settings).await.err().expect("no secret");
    assert!(refused.to_string().contains("--peer-secret-file is required"), "{refused}");
    let file = leasehold_testkit::folder();
    let secret = file.path().join("secret");
    for (text, words) in
        [("short", "at least 16"), ("with a space in the middle", "without spaces")]
    {
        std::fs::write(&secret, text).expect("a file");
        let mut settings = world.settings("n1", "n1");
        settings.cluster.as_mut().expect("it is shared").peer_secret_file = Some(secret.clone());
        let refused = world.start(settings).await.err().expect("no secret");
        assert!(refused.to_string().contains(words), "{refused}");
    }
    // With a shared secret, servers accept each other, and etcd contains no key.
    std::fs::write(&secret, "0123456789abcdef\n").expect("a file");
    let secret_of = |name: &str| {
        let mut settings = world.settings(name, name);
        let cluster = settings.cluster.as_mut().expect("it is shared");
        cluster.peer_listen = Some("0.0.0.0:0".parse().expect("an address"));
        cluster.peer_secret_file = Some(secret.clone());
        settings
    };
    let first = world.start(secret_of("n1")).await.expect("a start");
    first.until("/leaderz", 200).await;
    let second = world.start(secret_of("n2")).await.expect("a start");
    second.until("/readyz", 200).await;
    assert_eq!(second.client.acquire("db", "a", 60_000, json!({})).await.status, 200);
    assert_eq!(world.value("leader")["peer_key"], json!(null));
    // A server with another secret is not accepted as a peer.
    let other = file.path().join("other");
    std::fs::write(&other, "another secret, with spaces".replace(' ', "-")).expect("a file");
    let mut settings = secret_of("n3");
    settings.cluster.as_mut().expect("it is shared").peer_secret_file = Some(other);
    let third = world.start(settings).await.expect("a start");
    let refused = third.client.acquire("db", "a", 60_000, json!({})).await;
    assert_eq!((refused.status, refused.text_of("code")), (503, "BUSY".into()), "{refused:?}");
    assert_eq!(third.client.get("/readyz").await.status, 503);
}
