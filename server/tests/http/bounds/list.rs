//! Tests of long lists: sent in pieces, to a limited number of clients, and for a limited time.

use std::time::Duration;

use leasehold_testkit::{Local, json, settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::bounds::metric;

const N_LOCKS: usize = 300;

/// Starts a server whose list of locks does not fit into any buffer: 300 locks with 16 kB of metadata, which the list
/// contains twice.
async fn crowded(settings: leasehold_server::serve::Settings) -> Local {
    let local = Local::start(settings).await;
    let more = json!({"metadata": "x".repeat(16 * 1024 - 2)});
    for n in 0..N_LOCKS {
        let held = local.client.acquire(&format!("l{n}"), "a", 3_600_000, more.clone()).await;
        assert_eq!(held.status, 200);
    }
    local
}

#[tokio::test]
async fn a_long_list_comes_whole_and_in_pieces() {
    let local = crowded(settings(None)).await;
    let list = local.client.get("/v1/locks?limit=1000").await;
    assert_eq!(list.status, 200);
    assert!(!list.headers.contains_key("content-length"), "it is sent in pieces");
    assert!(list.text.len() > 8 << 20, "{} bytes", list.text.len());
    assert_eq!(list.get("locks").as_array().map(Vec::len), Some(N_LOCKS));
    assert!(list.get("next_cursor").is_null());
    let part = local.client.get("/v1/locks?limit=250").await;
    assert_eq!(part.get("locks").as_array().map(Vec::len), Some(250));
    let rest = local.client.get(&format!("/v1/locks?cursor={}", part.text_of("next_cursor"))).await;
    assert_eq!(rest.get("locks").as_array().map(Vec::len), Some(N_LOCKS - 250));
}

/// Twelve unread responses used to take 1.25 GB, and stalled other clients for 4.8 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_do_not_read_take_up_little_and_are_cut_off() {
    let mut settings = settings(None);
    settings.http.answer_timeout = Duration::from_secs(15);
    let local = crowded(settings).await;
    let mut readers = Vec::new();
    for _ in 0..12 {
        let mut stream = TcpStream::connect(local.address).await.unwrap();
        stream.write_all(b"GET /v1/locks?limit=1000 HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        readers.push(stream);
    }
    local
        .until("all twelve are being answered", async |_| {
            metric(&local, "leasehold_answers_bytes").await == 12 * 256 * 1024
        })
        .await;
    let began = std::time::Instant::now();
    for n in 0..100 {
        assert_eq!(local.client.acquire(&format!("o{n}"), "b", 1000, json!({})).await.status, 200);
    }
    assert!(began.elapsed() < Duration::from_secs(40), "others stalled: {:?}", began.elapsed());
    local
        .until("who reads nothing is sent nothing", async |_| {
            metric(&local, "leasehold_answers_bytes").await == 0
        })
        .await;
    for mut reader in readers {
        let mut bytes = Vec::new();
        let _ = reader.read_to_end(&mut bytes).await;
        assert!(!String::from_utf8_lossy(&bytes).contains("next_cursor"), "it is not complete");
    }
}

#[tokio::test]
async fn only_so_much_is_being_sent_at_once() {
    let mut settings = settings(None);
    settings.http.answers_bytes_max = 1;
    settings.http.event_streams_max = 1;
    let local = crowded(settings).await;
    let ask = async |path: &str| {
        let mut stream = TcpStream::connect(local.address).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 200");
        stream
    };
    for (path, setting) in
        [("/v1/locks?limit=1000", "answers-bytes-max"), ("/v1/events", "event-streams-max")]
    {
        let first = ask(path).await;
        let refused = local.client.get(path).await;
        assert_eq!((refused.status, refused.text_of("code").as_str()), (503, "OVERLOADED"));
        assert!(refused.text_of("error").contains(setting), "{refused:?}");
        assert_eq!(refused.headers["retry-after"], "1");
        drop(first);
        local
            .until("there is room again", async |_| {
                let metrics = ["leasehold_answers_bytes", "leasehold_event_streams"];
                metric(&local, metrics[usize::from(path != "/v1/locks?limit=1000")]).await == 0
            })
            .await;
    }
}

/// An exempt address can open any number of streams. Any other address can open only its share.
#[tokio::test]
async fn one_address_has_a_share_of_streams() {
    for is_exempt in [true, false] {
        let mut settings = settings(None);
        settings.http.principal_event_streams_max = 1;
        if !is_exempt {
            settings.http.connections_per_peer_exempt = [].into();
        }
        let local = Local::start(settings).await;
        let mut first = TcpStream::connect(local.address).await.unwrap();
        first.write_all(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        first.read_exact(&mut [0; 12]).await.unwrap();
        let mut second = TcpStream::connect(local.address).await.unwrap();
        second.write_all(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut start = [0; 12];
        second.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, if is_exempt { b"HTTP/1.1 200" } else { b"HTTP/1.1 429" });
    }
}

/// A lock with many holders is returned with some of them and with their total number.
#[tokio::test]
async fn a_crowded_lock_shows_some_of_its_holders() {
    let local = Local::ephemeral().await;
    let more = json!({"mode": "shared", "metadata": "x".repeat(16 * 1024 - 2)});
    for n in 0..50 {
        let held = local.client.acquire("l", &format!("o{n}"), 60_000, more.clone()).await;
        assert_eq!(held.status, 200);
    }
    let look = local.client.get("/v1/locks/l").await;
    let n_shown = look.get("holders").as_array().map_or(0, Vec::len);
    assert!((1..10).contains(&n_shown), "{n_shown}");
    assert_eq!(look.number("n_holders"), 50);
}

#[tokio::test]
async fn a_long_list_of_claims_comes_whole() {
    let local = Local::ephemeral().await;
    for n in 0..40 {
        let claim =
            json!({"resource": format!("r{n}"), "timeout": 60, "metadata": "x".repeat(16_000)});
        assert_eq!(local.client.post("/v1/claims/", claim).await.unwrap().status, 201);
    }
    let list = local.client.get("/v1/claims/?limit=30").await;
    assert!(!list.headers.contains_key("content-length"), "it is sent in pieces");
    let claims = list.body.as_array().unwrap();
    assert_eq!(claims.len(), 30);
    for (n, claim) in (1..).zip(claims) {
        assert!(claim["url"].as_str().unwrap().ends_with(&format!("/v1/claims/{n}/")), "{claim}");
    }
    assert!(list.headers["link"].to_str().unwrap().contains("offset=30"));
}
