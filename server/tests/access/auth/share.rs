//! Tests of the share that one principal can use of limits that apply to the whole server.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold_core::Limits;
use leasehold_testkit::{Response, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::auth::{RULES, Scene, acquire};

const NAMES: [&str; 3] = ["greedy", "modest", "admin"];

fn rules(more: &str) -> String {
    let both = "[[rule]]\nname = \"both\"\nwho = [\"key:greedy\", \"key:modest\"]\nmay = [\"acquire\", \"read\"]\n\
                namespaces = [\"default\"]\n";
    format!("{RULES}{both}{more}")
}

/// Opens an HTTP/1 stream. Returns the connection, or the refusal.
async fn begin(scene: &Scene, who: &str, line: &str, body: &str) -> Result<TcpStream, String> {
    let key = scene.proof(who);
    let key = key.first().map(|(name, value)| format!("{name}: {value}\r\n")).unwrap_or_default();
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\nconnection: close\r\n{key}\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(scene.local.address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("it is there");
    let mut answer = Vec::new();
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        stream.read_buf(&mut answer).await.expect("an answer");
    }
    if answer.starts_with(b"HTTP/1.1 200 ") {
        return Ok(stream);
    }
    stream.read_to_end(&mut answer).await.expect("its body");
    Err(String::from_utf8_lossy(&answer).into_owned())
}

async fn metric(scene: &Scene, line: &str) -> u64 {
    let text = scene.send("admin", "GET /metrics", leasehold_testkit::Value::Null).await.text;
    let found = text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
    found.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// A watch of the principal's own lease counts as a stream too. It did not at first.
#[tokio::test]
async fn streams_of_every_kind_count_together_and_one_key_has_a_share() {
    let scene = Scene::with(&rules(""), &NAMES, |settings| {
        settings.http.event_streams_max = 4;
        settings.http.principal_event_streams_max = 2;
    })
    .await;
    let held = scene.send("greedy", "POST /v1/locks/a/acquire", acquire("o")).await;
    let watch = json!({
        "owner_id": "o", "lease_id": held.get("lease_id"), "fencing_token": held.get("fencing_token"),
    });
    let watch = watch.to_string();
    let kinds = [
        ("GET /v1/events", ""),
        ("POST /v1/locks/a/watch", watch.as_str()),
        ("GET /console/live", ""),
    ];
    for (first, _) in kinds.iter().enumerate() {
        let mut streams = Vec::new();
        for (n, (line, body)) in kinds.iter().cycle().skip(first).take(3).enumerate() {
            match begin(&scene, "greedy", line, body).await {
                Ok(stream) => streams.push(stream),
                Err(refused) => {
                    assert_eq!(n, 2, "{line}: {refused}");
                    assert!(
                        refused.contains("limit: 2 (principal-event-streams-max)"),
                        "{refused}"
                    );
                }
            }
        }
        assert_eq!(streams.len(), 2);
        assert_eq!(metric(&scene, "leasehold_event_streams").await, 2);
        let other = begin(&scene, "modest", "GET /v1/events", "").await;
        streams.push(other.expect("another key has its own share"));
        drop(streams);
        let none_left = async |_: &leasehold_testkit::Client| {
            metric(&scene, "leasehold_event_streams").await == 0
        };
        scene.local.until("all have ended", none_left).await;
    }
    let refusals = "leasehold_limit_refusals_total{limit=\"principal-event-streams-max\"}";
    assert_eq!(metric(&scene, refusals).await, 3);
    scene.stop().await;
}

#[tokio::test]
async fn a_quota_covers_bytes_and_streams() {
    let quota = "[[quota]]\nwho = [\"key:greedy\"]\nbytes = 1000\nstreams = 1\n";
    let scene = Scene::with(&rules(quota), &NAMES, |_| {}).await;
    let take = async |who: &str, lock: &str, metadata: usize| -> Response {
        let body = json!({"owner_id": "o", "ttl_ms": 60_000, "metadata": "x".repeat(metadata)});
        scene.send(who, &format!("POST /v1/locks/{lock}/acquire"), body).await
    };
    assert_eq!(take("greedy", "a", 500).await.status, 200);
    let refused = take("greedy", "b", 500).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    let told = "too many bytes of this principal; limit: 1000 (quota in auth-file, line 45)";
    assert!(refused.text_of("error").starts_with(told), "{refused:?}");
    assert_eq!(take("greedy", "b", 100).await.status, 200);
    assert_eq!(take("modest", "c", 5000).await.status, 200);
    let _first = begin(&scene, "greedy", "GET /v1/events", "").await.expect("one is allowed");
    let refused = begin(&scene, "greedy", "GET /v1/events", "").await.expect_err("and no more");
    let told = "too many event streams of this principal; limit: 1 (quota in auth-file, line 45)";
    assert!(refused.starts_with("HTTP/1.1 429 ") && refused.contains(told), "{refused}");
    let _one = begin(&scene, "modest", "GET /v1/events", "").await.expect("it has no quota");
    let _two = begin(&scene, "modest", "GET /v1/events", "").await.expect("it has no quota");
    scene.stop().await;
}

/// A single key could use up the metadata budget of the whole server.
#[tokio::test]
async fn one_key_leaves_metadata_to_others() {
    let scene = Scene::with(&rules(""), &NAMES, |settings| {
        settings.engine.limits = Limits {
            metadata_total_bytes_max: 4000,
            principal_metadata_bytes_max: 1000,
            ..Limits::default()
        };
    })
    .await;
    let take = async |who: &str, n: usize| {
        let owner = format!("{who}-{n}");
        let body = json!({"owner_id": owner, "ttl_ms": 60_000, "metadata": "x".repeat(398)});
        scene.send(who, &format!("POST /v1/locks/{owner}/acquire"), body).await
    };
    for n in 0..20 {
        let answer = take("greedy", n).await;
        assert_eq!(answer.status, if n < 2 { 200 } else { 429 }, "{answer:?}");
        assert!(n < 2 || answer.text_of("error").contains("(principal-metadata-bytes-max)"));
    }
    assert_eq!(take("modest", 0).await.status, 200);
    let refusals = "leasehold_limit_refusals_total{limit=\"principal-metadata-bytes-max\"}";
    assert_eq!(metric(&scene, refusals).await, 18);
    scene.stop().await;
}

/// Opens an HTTP/2 connection with a client that reads no response body.
async fn connect(scene: &Scene) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(scene.local.address).await.expect("a connection");
    let mut builder = http2::Builder::new(TokioExecutor::new());
    let builder = builder.initial_stream_window_size(0);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

fn request(scene: &Scene, who: &str, line: &str, body: &str) -> hyper::Request<Full<Bytes>> {
    let (method, path) = line.split_once(' ').expect("a method and a path");
    let uri = format!("http://localhost:{}{path}", scene.local.address.port());
    let mut request = hyper::Request::builder().method(method).uri(uri);
    for (name, value) in scene.proof(who) {
        request = request.header(name, value);
    }
    let request = request.header("content-type", "application/json");
    request.body(Full::from(body.to_owned())).expect("a request")
}

#[tokio::test]
async fn one_key_leaves_requests_of_http2_to_others() {
    let scene = Scene::with(&rules(""), &NAMES, |settings| {
        settings.http.streams_max = 8;
        settings.http.principal_streams_max = 4;
    })
    .await;
    let held = scene.send("greedy", "POST /v1/locks/a/acquire", acquire("o")).await;
    let mut client = connect(&scene).await;
    let mut answers = Vec::new();
    for n in 0..6 {
        client.ready().await.expect("a stream");
        let asked = client.send_request(request(&scene, "greedy", "GET /v1/locks", ""));
        let answer = asked.await.expect("an answer");
        assert_eq!(answer.status(), if n < 4 { 200 } else { 429 });
        answers.push(answer);
    }
    // A refused request does not count as a stream, even if its response has not been read.
    assert_eq!(metric(&scene, "leasehold_streams").await, 4);
    assert_eq!(metric(&scene, "leasehold_streams_open").await, 6);
    let refusals = "leasehold_limit_refusals_total{limit=\"principal-streams-max\"}";
    assert_eq!(metric(&scene, refusals).await, 2);
    // Other keys still get responses. Even the first key can still renew its lock.
    let mut other = connect(&scene).await;
    let asked = other.send_request(request(&scene, "modest", "GET /v1/locks", ""));
    assert_eq!(asked.await.expect("an answer").status(), 200);
    let renew = json!({
        "owner_id": "o", "lease_id": held.get("lease_id"), "fencing_token": held.get("fencing_token"),
        "extend_by_ms": 60_000,
    });
    let renew = request(&scene, "greedy", "POST /v1/locks/a/renew", &renew.to_string());
    assert_eq!(client.send_request(renew).await.expect("an answer").status(), 200);
    drop(answers);
    let is_free = async |_: &leasehold_testkit::Client| {
        let asked = client.clone().send_request(request(&scene, "greedy", "GET /v1/locks", ""));
        asked.await.expect("an answer").status() == 200
    };
    scene.local.until("there is room again", is_free).await;
    scene.stop().await;
}

/// Waiting requests with many headers used up the budget of all clients.
#[tokio::test]
async fn one_key_leaves_memory_for_headers_to_others() {
    let scene = Scene::with(&rules(""), &NAMES, |settings| {
        settings.http.heads_total_bytes_max = 1 << 20;
    })
    .await;
    let held = scene.send("greedy", "POST /v1/locks/a/acquire", acquire("o")).await;
    let with_headers = |mut request: hyper::Request<Full<Bytes>>| {
        for n in 0..400 {
            let name = hyper::header::HeaderName::try_from(format!("x-{n}")).expect("a name");
            request.headers_mut().insert(name, hyper::header::HeaderValue::from_static(""));
        }
        request
    };
    let wait = json!({"owner_id": "w", "ttl_ms": 60_000, "wait_ms": 60_000}).to_string();
    let mut client = connect(&scene).await;
    let mut waiting = Vec::new();
    for _ in 0..4 {
        client.ready().await.expect("a stream");
        let wait = request(&scene, "greedy", "POST /v1/locks/a/acquire", &wait);
        let asked = tokio::spawn(client.send_request(with_headers(wait)));
        let n = waiting.len() as u64;
        let is_over = async |_: &leasehold_testkit::Client| {
            asked.is_finished() || metric(&scene, "leasehold_heads_bytes").await > n * 90_000
        };
        scene.local.until("it is counted or refused", is_over).await;
        if asked.is_finished() {
            assert_eq!(asked.await.expect("it ran").expect("an answer").status(), 431);
            break;
        }
        waiting.push(asked);
    }
    assert_eq!(waiting.len(), 2, "a quarter of the budget");
    let refusals = "leasehold_limit_refusals_total{limit=\"heads-total-bytes-max\"}";
    assert_eq!(metric(&scene, refusals).await, 1);
    // Other keys have their own part, and the first key can still renew.
    let other = with_headers(request(&scene, "modest", "GET /v1/locks", ""));
    assert_eq!(client.send_request(other).await.expect("an answer").status(), 200);
    let renew = json!({
        "owner_id": "o", "lease_id": held.get("lease_id"), "fencing_token": held.get("fencing_token"),
        "extend_by_ms": 60_000,
    });
    let renew = request(&scene, "greedy", "POST /v1/locks/a/renew", &renew.to_string());
    let renewed = client.send_request(with_headers(renew)).await.expect("an answer");
    assert_eq!(renewed.status(), 200);
    let release = json!({
        "owner_id": "o", "lease_id": held.get("lease_id"), "fencing_token": held.get("fencing_token"),
    });
    scene.send("greedy", "POST /v1/locks/a/release", release).await;
    waiting.remove(0).await.expect("it ran").expect("an answer");
    let again = with_headers(request(&scene, "greedy", "GET /v1/locks", ""));
    assert_eq!(client.send_request(again).await.expect("an answer").status(), 200, "it is freed");
    scene.stop().await;
}

fn without_key(scene: &Scene) -> hyper::Request<Full<Bytes>> {
    let mut request = request(scene, "modest", "GET /v1/locks", "");
    request.headers_mut().clear();
    request
}

/// Refused requests with unread responses used up the HTTP/2 streams of all clients.
#[tokio::test]
async fn refused_requests_of_http2_leave_room_for_others() {
    let scene = Scene::with(&rules(""), &NAMES, |settings| {
        settings.http.streams_max = 40;
        settings.http.principal_streams_max = 4;
    })
    .await;
    let (mut greedy, mut unknown) = (connect(&scene).await, connect(&scene).await);
    let mut answers = Vec::new();
    for _ in 0..23 {
        greedy.ready().await.expect("a stream");
        let asked = greedy.send_request(request(&scene, "greedy", "GET /v1/locks", ""));
        answers.push(asked.await.expect("an answer"));
        unknown.ready().await.expect("a stream");
        let refused = unknown.send_request(without_key(&scene)).await.expect("an answer");
        assert!(matches!(refused.status().as_u16(), 401 | 429), "{refused:?}");
        answers.push(refused);
    }
    assert_eq!(metric(&scene, "leasehold_streams_open").await, 46, "more than streams-max");
    assert_eq!(metric(&scene, "leasehold_streams").await, 4);
    let mut other = connect(&scene).await;
    let asked = other.send_request(request(&scene, "modest", "GET /v1/locks", ""));
    assert_eq!(asked.await.expect("an answer").status(), 200);
    scene.stop().await;
}

/// Above the server-wide maximum of open streams, the server closes the connection with the most unread responses, and
/// no other.
#[tokio::test]
async fn too_many_untaken_answers_end_their_own_connection() {
    let scene = Scene::with(&rules(""), &NAMES, |settings| {
        settings.http.streams_max = 40;
        settings.http.principal_streams_max = 4;
    })
    .await;
    let mut modest = connect(&scene).await;
    let asked = modest.send_request(request(&scene, "modest", "GET /v1/locks", ""));
    let kept = asked.await.expect("an answer");
    let mut unknown = connect(&scene).await;
    let mut answers = Vec::new();
    for _ in 0..100 {
        // The server closes the connection at some point.
        if unknown.ready().await.is_err() {
            break;
        }
        let Ok(refused) = unknown.send_request(without_key(&scene)).await else { break };
        answers.push(refused);
    }
    assert!((48..60).contains(&answers.len()), "{}", answers.len());
    let asked = modest.send_request(request(&scene, "modest", "GET /v1/locks", ""));
    assert_eq!(asked.await.expect("its connection is still there").status(), 200);
    let are_gone =
        async |_: &leasehold_testkit::Client| metric(&scene, "leasehold_streams_open").await <= 2;
    scene.local.until("the others are gone", are_gone).await;
    drop(kept);
    scene.stop().await;
}

/// A single key with unfinished uploads kept all others from writing.
#[tokio::test]
async fn one_key_leaves_uploads_to_others() {
    let names = ["file-writer", "other", "admin"];
    let scene = Scene::with(RULES, &names, |settings| settings.http.uploads_max = 2).await;
    let (name, key) = scene.proof("file-writer").swap_remove(0);
    let mut unfinished = TcpStream::connect(scene.local.address).await.expect("a connection");
    let head = format!(
        "POST /terraform/a HTTP/1.1\r\nhost: localhost\r\n{name}: {key}\r\ncontent-length: 9\r\n\r\n{{"
    );
    unfinished.write_all(head.as_bytes()).await.expect("it is there");
    let has_begun =
        async |_: &leasehold_testkit::Client| metric(&scene, "leasehold_uploads").await == 1;
    scene.local.until("the upload has begun", has_begun).await;
    let refused = scene.send("file-writer", "POST /terraform/b", json!({"serial": 1})).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    let told = "by one principal or anonymous address; limit: 1";
    assert!(refused.text.contains(told), "{refused:?}");
    assert_eq!(metric(&scene, "leasehold_limit_refusals_total{limit=\"uploads\"}").await, 1);
    let other = scene.send("other", "POST /terraform/c", json!({"serial": 1})).await;
    assert_eq!(other.status, 200, "{other:?}");
    drop(unfinished);
    scene.stop().await;
}
