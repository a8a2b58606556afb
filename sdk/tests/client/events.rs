//! Watching events while the server restarts.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use leasehold::api::EventKind;
use leasehold::{Client, Error, Events, Watched};
use leasehold_server::http::Listen;
use leasehold_testkit::{Local, ReservedPort, folder, json, settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn granted(events: &mut Events) -> Result<String, String> {
    match events.next().await.expect("the server is there") {
        Watched::Event { event, .. } if event.kind == EventKind::Granted => Ok(event.lock_name),
        Watched::Event { event, .. } => panic!("{event:?}"),
        Watched::Gap(gap) => Err(gap.reason),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_watcher_goes_on_after_a_restart_and_misses_nothing() {
    let (folder, port) = (folder(), ReservedPort::any());
    let with_port = || {
        let mut settings = settings(Some(folder.path()));
        settings.listen = vec![Listen::Http(port.address)];
        settings
    };
    let local = Local::start(with_port()).await;
    let client = Client::new(&format!("http://{}", local.address)).unwrap();
    let [mut informed, mut fresh] = [(); 2].map(|()| client.watch(""));
    informed.connect().await.unwrap();
    fresh.connect().await.unwrap();
    local.client.acquire("one", "me", 60_000, json!({})).await;
    assert_eq!(granted(&mut informed).await, Ok("one".into()));

    let clock = local.clock.clone();
    local.stop().await;
    let local = Local::start_at(with_port(), clock).await;
    // The first watcher has seen an event and resumes after it. The second has one in its buffer, and resumes after
    // that.
    assert_eq!(granted(&mut fresh).await, Ok("one".into()));
    local.client.acquire("two", "me", 60_000, json!({})).await;
    for events in [&mut informed, &mut fresh] {
        assert_eq!(granted(events).await, Ok("two".into()));
    }
}

#[tokio::test]
async fn a_watcher_that_saw_nothing_before_the_connection_broke_says_so() {
    let port = ReservedPort::any();
    let with_port = || {
        let mut settings = settings(None);
        settings.listen = vec![Listen::Http(port.address)];
        settings
    };
    let local = Local::start(with_port()).await;
    let client = Client::new(&format!("http://{}", local.address)).unwrap();
    let mut events = client.watch("");
    events.connect().await.unwrap();
    local.stop().await;
    let _local = Local::start(with_port()).await;
    let gap = granted(&mut events).await.unwrap_err();
    assert_eq!(gap, "the connection broke before the first event");
}

#[tokio::test]
async fn a_watcher_whose_server_stays_away_is_told_in_the_end_and_may_ask_again() {
    let local = Local::ephemeral().await;
    let client = Client::new(&format!("http://{}", local.address)).unwrap();
    local.stop().await;
    let mut events = client.watch("");
    let gone = events.next().await.unwrap_err();
    assert!(matches!(gone, Error::Unreachable(_)), "{gone}");
    assert!(events.connect().await.unwrap_err().is_retryable());
}

#[tokio::test]
async fn events_are_a_stream() {
    use futures_core::Stream;
    let local = Local::ephemeral().await;
    let client = Client::new(&format!("http://{}", local.address)).unwrap();
    let mut events = client.watch("");
    events.connect().await.unwrap();
    let mut stream = std::pin::pin!(events.into_stream());
    for lock in ["one", "two"] {
        local.client.acquire(lock, "me", 60_000, json!({})).await;
        let next = std::future::poll_fn(|context| stream.as_mut().poll_next(context)).await;
        match next.unwrap().unwrap() {
            Watched::Event { event, .. } => assert_eq!(event.lock_name, lock),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn that_events_can_be_late_is_told_and_that_they_no_longer_are() {
    let stream = "event: stale\ndata: {\"reason\":\"cut off\"}\n\n\
                  event: current\ndata: {\"reason\":\"back\"}\n\n";
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read(&mut [0; 4096]).await.unwrap();
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        socket.write_all(format!("{head}{stream}").as_bytes()).await.unwrap();
        std::future::pending::<()>().await;
    });
    let mut events = client.watch("");
    assert_eq!(events.next().await.unwrap(), Watched::Stale { reason: "cut off".into() });
    assert_eq!(events.next().await.unwrap(), Watched::Current { reason: "back".into() });
    server.abort();
}
