//! Every call of the native API, against a real server.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use leasehold::api::{
    AcquireRequest, Code, EventKind, Mode, OpenSessionRequest, Reason, ReleaseRequest, RenewRequest,
};
use leasehold::{Client, Error, ListQuery, Standing, Watched};
use leasehold_testkit::{Local, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn client_of(local: &Local) -> Client {
    Client::new(&format!("http://{}", local.address)).unwrap()
}

fn ask(owner: &str) -> AcquireRequest {
    AcquireRequest { owner_id: owner.into(), ttl_ms: Some(30_000), ..Default::default() }
}

#[tokio::test]
async fn a_lock_can_be_acquired_seen_renewed_and_released() {
    let local = Local::ephemeral().await;
    let client = client_of(&local);
    let name = "orders / ü?";
    let mut request = ask("one");
    request.metadata = Some(json!({"host": "a1"}));
    let acquired = client.acquire(name, &request).await.unwrap();
    assert_eq!((acquired.lock_name.as_str(), acquired.fencing_token), (name, 1));

    let state = client.look(name).await.unwrap();
    assert_eq!(state.owner_id.as_deref(), Some("one"));
    assert_eq!(state.metadata, Some(json!({"host": "a1"})));

    let (owner_id, lease_id) = (acquired.owner_id, acquired.lease_id);
    let (fencing_token, request_id) = (acquired.fencing_token, None);
    let renew = RenewRequest {
        owner_id: owner_id.clone(),
        lease_id: lease_id.clone(),
        fencing_token,
        extend_by_ms: 60_000,
        request_id: None,
    };
    assert_eq!(client.renew(name, &renew).await.unwrap().expires_in_ms, Some(60_000));
    assert!(client.check_fence(name, 1).await.unwrap().accepted);
    let release = ReleaseRequest { owner_id, lease_id, fencing_token, request_id };
    assert!(client.release(name, &release).await.unwrap().released);

    let late = client.renew(name, &renew).await.unwrap_err();
    assert!(matches!(&late, Error::NotRenewed(no) if no.reason == Reason::NotOwnerOrExpired));
    let twice = client.release(name, &release).await.unwrap_err();
    assert!(matches!(&twice, Error::NotReleased(no) if no.reason == Reason::NotOwner));
    assert!(!twice.is_retryable() && !twice.may_have_taken_effect());
}

#[tokio::test]
async fn a_refusal_says_who_has_it_and_when_to_return() {
    let local = Local::ephemeral().await;
    let client = client_of(&local);
    client.acquire("a", &ask("one")).await.unwrap();
    let refused = client.acquire("a", &ask("two")).await.unwrap_err();
    assert!(refused.is_conflict() && refused.is_retryable() && !refused.may_have_taken_effect());
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(refused.to_string(), "the lock is held (by one)");
    let revoked = client.revoke("a", "test").await.unwrap();
    assert_eq!(revoked.revoked[0].owner_id, "one");
    client.acquire("a", &ask("two")).await.unwrap();
}

#[tokio::test]
async fn namespaces_are_apart_and_lists_go_by_page() {
    let local = Local::ephemeral().await;
    let url = format!("http://{}/", local.address);
    let here = Client::new(&url).unwrap();
    let there = Client::builder(&url).namespace("there/x").build().unwrap();
    for n in 0..5 {
        there.acquire(&format!("lock-{n}"), &ask("one")).await.unwrap();
    }
    here.acquire("lock-0", &ask("two")).await.unwrap();
    let mut query = ListQuery {
        prefix: "lock-".into(),
        owner: Some("one".into()),
        standing: Some(Standing::Held),
        limit: Some(2),
        cursor: None,
    };
    let mut names = Vec::new();
    loop {
        let page = there.list(&query).await.unwrap();
        names.extend(page.locks.into_iter().map(|lock| lock.lock_name));
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            break;
        }
    }
    names.sort();
    assert_eq!(names, ["lock-0", "lock-1", "lock-2", "lock-3", "lock-4"]);
    assert_eq!(here.list(&ListQuery::default()).await.unwrap().locks.len(), 1);
}

#[tokio::test]
async fn a_session_can_be_opened_kept_seen_and_closed() {
    let local = Local::ephemeral().await;
    let client = client_of(&local);
    let request = OpenSessionRequest { owner_id: "one".into(), ttl_ms: 10_000 };
    let id = client.open_session(&request).await.unwrap().session_id;
    local.advance_ms(4_000);
    assert_eq!(client.look_session(&id).await.unwrap().expires_in_ms, 6_000);
    assert_eq!(client.keep_session(&id).await.unwrap().expires_in_ms, 10_000);
    client.close_session(&id).await.unwrap();
    let gone = client.keep_session(&id).await.unwrap_err();
    assert!(
        matches!(&gone, Error::Failed { status: 404, failure } if failure.code == Code::NoSuchSession)
    );
}

#[tokio::test]
async fn events_are_told_and_can_be_resumed() {
    let local = Local::ephemeral().await;
    let client = client_of(&local);
    let mut events = client.watch("order");
    events.connect().await.unwrap();
    client.acquire("other", &ask("one")).await.unwrap();
    client.acquire("orders", &ask("one")).await.unwrap();
    client.revoke("orders", "test").await.unwrap();
    let Watched::Event { id, event } = events.next().await.unwrap() else { panic!("a gap") };
    assert_eq!((event.kind, event.lock_name.as_str()), (EventKind::Granted, "orders"));
    let mut resumed = client.watch("order").since(id);
    let Watched::Event { event, .. } = resumed.next().await.unwrap() else { panic!("a gap") };
    assert_eq!((event.kind, event.reason.as_deref()), (EventKind::Revoked, Some("test")));
}

#[tokio::test]
async fn nonsense_is_refused_with_the_field_that_is_wrong() {
    let local = Local::ephemeral().await;
    let client = client_of(&local);
    let mut request = ask("one");
    (request.mode, request.limit) = (Some(Mode::Shared), Some(2));
    let refused = client.acquire("a", &request).await.unwrap_err();
    assert!(!refused.is_retryable());
    assert_eq!(refused.to_string(), "limit cannot be combined with mode (400)");
    assert!(matches!(client.look("").await, Err(Error::Invalid(_))));
    for url in ["localhost:8080", "http://a/?b", "ftp://a", ""] {
        assert!(matches!(Client::new(url), Err(Error::Invalid(_))), "{url}");
    }
    client.ready().await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable_and_nothing_happened() {
    let client = Client::new(&format!("http://{}", leasehold_testkit::nowhere())).unwrap();
    let error = client.look("a").await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error}");
    assert!(error.is_retryable() && !error.may_have_taken_effect());
}

/// Returns a client of a server that accepts one connection and sends `answer`, whatever the request is.
async fn impostor(answer: &'static str) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    Client::builder(&url).timeout(Duration::from_secs(60)).build().unwrap()
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_request_leaves_one_not_knowing() {
    for answer in ["", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{"] {
        let error = impostor(answer).await.acquire("a", &ask("one")).await.unwrap_err();
        assert!(matches!(error, Error::Broken(_)), "{error}");
        assert!(error.is_retryable() && error.may_have_taken_effect());
    }
}

#[tokio::test]
async fn what_no_leasehold_server_says_is_told_apart() {
    let cases = [
        ("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 3\r\n\r\nbad", true, true),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 3\r\n\r\nbad", false, false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad", false, true),
    ];
    for (answer, retryable, may_have) in cases {
        let error = impostor(answer).await.acquire("a", &ask("one")).await.unwrap_err();
        assert!(matches!(&error, Error::Foreign { body, .. } if body == "bad"), "{error}");
        assert_eq!((error.is_retryable(), error.may_have_taken_effect()), (retryable, may_have));
    }
}

#[tokio::test]
async fn a_code_of_a_newer_server_is_still_understood() {
    let answer = "HTTP/1.1 418 Odd\r\ncontent-length: 84\r\n\r\n\
        {\"error\":\"odd\",\"code\":\"ODD_ONE_OUT\",\"retryable\":true,\"may_have_taken_effect\":false}  ";
    let error = impostor(answer).await.acquire("a", &ask("one")).await.unwrap_err();
    assert!(
        matches!(&error, Error::Failed { failure, .. } if failure.code == Code::Other),
        "{error}"
    );
    assert!(error.is_retryable() && !error.may_have_taken_effect());
}

/// Starts a proxy to the server. Returns its URL and the count of its connections.
async fn counting_proxy(local: &Local) -> (String, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (n, server) = (std::sync::Arc::<std::sync::atomic::AtomicUsize>::default(), local.address);
    let counted = n.clone();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let mut far = tokio::net::TcpStream::connect(server).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
        }
    });
    (url, n)
}

#[tokio::test]
async fn over_http2_many_ask_and_wait_on_one_connection() {
    let local = Local::ephemeral().await;
    let (url, n_connections) = counting_proxy(&local).await;
    let client = Client::builder(&url).http2(true).build().unwrap();
    let guard = client.lock("a").acquire().await.unwrap();
    let waiters: Vec<_> = (0..100)
        .map(|n| {
            let request = client.lock("a").owner(format!("w{n}")).wait(Duration::from_secs(60));
            tokio::spawn(async move { request.acquire().await.unwrap().release().await.unwrap() })
        })
        .collect();
    local
        .until("all wait", async |client| client.get("/v1/locks/a").await.get("n_waiting") == 100)
        .await;
    guard.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(n_connections.load(std::sync::atomic::Ordering::SeqCst), 1);
    // A client that gives up waiting leaves the queue, even though its connection stays open.
    let guard = client.lock("a").acquire().await.unwrap();
    let waiting = client.lock("a").owner("impatient").wait(Duration::from_secs(60)).acquire();
    assert!(tokio::time::timeout(Duration::from_millis(100), waiting).await.is_err());
    local
        .until("it is away", async |client| {
            let state = client.get("/v1/locks/a").await;
            let queue = state.get("queue").as_array().cloned().unwrap_or_default();
            queue.iter().all(|waiter| waiter["parked"] == true)
        })
        .await;
    guard.release().await.unwrap();
}
