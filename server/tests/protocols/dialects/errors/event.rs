//! Tests of event streams: invalid parameters, and how the server reports a gap.

use leasehold_engine as engine;
use leasehold_server::serve::Settings;
use leasehold_testkit::{Local, Value, json, settings};

use crate::dialects::errors::raw::Raw;
use crate::dialects::errors::{Scene, get};

const NO_IDS: [&str; 10] =
    ["x", "1", "1-", "-1", "1-x", "g-1", "1-1", "1-1-1-1", "1.1", "1-99999999999999999999-0"];

#[tokio::test]
async fn a_parameter_that_makes_no_sense_is_named() {
    let scene = Scene::new().await;
    for path in ["/v1/events", "/v1/namespaces/other/events"] {
        for (query, field) in
            [("colour=red", "colour"), ("since=", "since"), ("prefix=a&prefix=a", "prefix")]
        {
            scene.refuses(get(&format!("{path}?{query}")), 400, "INVALID_REQUEST", field).await;
        }
        for id in NO_IDS {
            let ask = get(&format!("{path}?since={id}"));
            scene.refuses(ask, 400, "INVALID_REQUEST", "event id").await;
        }
    }
}

#[tokio::test]
async fn an_invalid_last_event_id_is_refused() {
    let scene = Scene::new().await;
    for id in NO_IDS {
        let headers = format!("last-event-id: {id}\r\nconnection: close\r\n");
        let mut raw = Raw::get(scene.local.address, "/v1/events", &headers).await;
        let head = raw.until("\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 400 "), "{id}: {head}");
        assert!(raw.until("}").await.contains(r#""code":"INVALID_REQUEST""#), "{id}");
    }
}

/// Returns the next event of a stream: its name, its id and its data.
async fn next(stream: &mut Raw) -> (String, String, Value) {
    // The response is chunked: lines with chunk sizes stand between the events.
    let text = stream.until("\n\n").await;
    let line = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    let data = line("data:").parse().expect("JSON");
    (line("event:"), line("id:"), data)
}

async fn watch(scene: &Scene, query: &str) -> Raw {
    let mut stream = Raw::get(scene.local.address, &format!("/v1/events?{query}"), "").await;
    let head = stream.until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("text/event-stream"), "{head}");
    stream
}

#[tokio::test]
async fn a_reader_that_comes_back_goes_on_where_it_was() {
    let scene = Scene::new().await;
    let mut stream = watch(&scene, "since=0-0-0").await;
    let (name, _, data) = next(&mut stream).await;
    assert_eq!((name.as_str(), data["reason"].as_str().is_some()), ("gap", true), "{data}");
    let (name, id, data) = next(&mut stream).await;
    let granted = json!({
        "kind": "granted", "namespace": "default", "lock_name": "job", "owner_id": "a",
        "fencing_token": 1, "at_ms": 0, "waited_ms": 0, "held_ms": 0,
    });
    assert_eq!((name.as_str(), &data), ("granted", &granted), "no lease_id in it");
    drop(stream);
    assert_eq!(scene.local.client.release(&scene.job, json!({})).await.status, 200);
    let mut stream = watch(&scene, &format!("since={id}")).await;
    assert_eq!(next(&mut stream).await.0, "released", "no gap and nothing twice");
    let headers = format!("last-event-id: {id}\r\n");
    let mut stream = Raw::get(scene.local.address, "/v1/events?since=0-0-0", &headers).await;
    stream.until("\r\n\r\n").await;
    assert_eq!(next(&mut stream).await.0, "released", "the header goes before the parameter");
}

#[tokio::test]
async fn following_from_dropped_events_starts_with_a_gap() {
    let engine = engine::Options { events_max: 2, ..engine::Options::default() };
    let scene = Scene::of(Local::start(Settings { engine, ..settings(None) }).await).await;
    let mut stream = watch(&scene, "since=0-0-0").await;
    let (_, _, restored) = next(&mut stream).await;
    assert!(restored["reason"].as_str().is_some_and(|why| why.contains("backup")), "{restored}");
    let (_, id, _) = next(&mut stream).await;
    for lock in ["x", "y", "z"] {
        assert_eq!(scene.local.client.acquire(lock, "b", 1000, json!({})).await.status, 200);
    }
    let (record, _) = id.rsplit_once('-').expect("three numbers");
    let (generation, record) = record.split_once('-').expect("three numbers");
    let record: u64 = record.parse().expect("a number");
    let cases = [(record, "no longer kept", "y"), (record + 1000, "does not exist yet", "after")];
    for (record, why, lock) in cases {
        let mut stream = watch(&scene, &format!("since={generation}-{record}-0")).await;
        let (name, _, gap) = next(&mut stream).await;
        assert_eq!(name, "gap");
        assert!(gap["reason"].as_str().is_some_and(|reason| reason.contains(why)), "{gap}");
        if lock == "after" {
            assert_eq!(scene.local.client.acquire(lock, "b", 1000, json!({})).await.status, 200);
        }
        assert_eq!(next(&mut stream).await.2["lock_name"], lock);
    }
}

#[tokio::test]
async fn a_reader_sees_its_namespace_and_its_prefix_only() {
    let scene = Scene::new().await;
    let mut stream = watch(&scene, "prefix=row-").await;
    let other = json!({"owner_id": "b", "ttl_ms": 1000});
    let path = "/v1/namespaces/other/locks/row-1/acquire";
    assert_eq!(scene.local.client.post(path, other).await.expect("an answer").status, 200);
    for lock in ["x", "row-2"] {
        assert_eq!(scene.local.client.acquire(lock, "b", 1000, json!({})).await.status, 200);
    }
    assert_eq!(next(&mut stream).await.2["lock_name"], "row-2");
}
