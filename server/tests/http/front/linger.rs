//! Tests that a response sent before the request was read in full still reaches the client.

use leasehold_testkit::{Client, Local, json, settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::front::untaken::opening;
use crate::front::{PATIENCE, Raw, post};

/// Size of a body that the server does not read.
const BODY_BYTES: usize = 200 * 1024;

/// Returns requests whose body the server does not need to read, with their expected status.
async fn refused(local: &Local) -> Vec<(u16, String)> {
    let session = async || {
        let opened = local.client.post("/auth/session", json!({})).await.unwrap();
        assert_eq!(opened.status, 201, "{}", opened.text);
        opened.text_of("sessionId")
    };
    let (mine, other) = (session().await, session().await);
    let bearer = |id: &str| format!("Authorization: Bearer {id}\r\n");
    let lock = format!(
        "POST /locked?lock=acquire HTTP/1.1\r\nHost: a\r\n{}Content-Length: 0\r\n\r\n",
        bearer(&other)
    );
    let locked = crate::front::ask(local.address, lock).await;
    assert!(locked.starts_with("HTTP/1.1 200 "), "{locked}");
    vec![
        (401, "PUT /file HTTP/1.1\r\n".into()),
        (404, "POST /v1/nope HTTP/1.1\r\n".into()),
        (405, "PUT /v1/locks HTTP/1.1\r\n".into()),
        (412, format!("PUT /file HTTP/1.1\r\nIf-Match: \"x\"\r\n{}", bearer(&mine))),
        (413, "POST /v1/locks/db/acquire HTTP/1.1\r\n".into()),
        (413, "POST /leases/acquire HTTP/1.1\r\n".into()),
        (423, format!("PUT /locked HTTP/1.1\r\n{}", bearer(&mine))),
        (400, "POST /v1/locks/db/acquire HTTP/1.1\r\nHost: b\r\n".into()),
    ]
}

#[tokio::test]
async fn a_refusal_reaches_a_client_that_is_still_sending() {
    let local = Local::ephemeral().await;
    for (status, head) in refused(&local).await {
        for length in
            [format!("Content-Length: {BODY_BYTES}\r\n"), "Transfer-Encoding: chunked\r\n".into()]
        {
            let is_chunked = length.starts_with('T');
            for n in 0..20 {
                let mut raw = Raw::connect(local.address).await;
                raw.send(format!("{head}Host: a\r\n{length}\r\n")).await;
                if is_chunked {
                    raw.send(format!("{BODY_BYTES:x}\r\n")).await;
                }
                let piece = vec![b' '; BODY_BYTES / 8];
                for _ in 0..8 {
                    raw.send(&piece).await;
                    tokio::task::yield_now().await;
                }
                let answer = raw.rest().await;
                let expected = format!("HTTP/1.1 {status} ");
                assert!(answer.starts_with(&expected), "{n}: {head}{length}got {answer:?}");
            }
        }
    }
}

/// More bytes than the server discards, and more than any buffer holds.
const LARGE_BYTES: usize = 4 << 20;

#[tokio::test]
async fn a_refusal_reaches_a_client_that_has_much_to_send() {
    let local = Local::ephemeral().await;
    for (status, head) in refused(&local).await {
        let (expected, length) = (format!("HTTP/1.1 {status} "), LARGE_BYTES);
        let head = format!("{head}Host: a\r\nContent-Length: {length}\r\n\r\n");
        for reads_meanwhile in [true, false] {
            let mut raw = Raw::connect(local.address).await;
            raw.send(&head).await;
            let body = vec![b' '; LARGE_BYTES];
            let answer = if reads_meanwhile {
                let (mut reading, mut writing) = raw.0.split();
                let mut answer = Vec::new();
                tokio::select! {
                    biased;
                    _ = reading.read_to_end(&mut answer) => {}
                    () = async {
                        let _ = writing.write_all(&body).await;
                        std::future::pending().await
                    } => {}
                }
                String::from_utf8_lossy(&answer).into_owned()
            } else {
                // The client gets a connection error while sending. The response arrived before that.
                raw.send(&body).await;
                raw.rest().await
            };
            assert!(answer.starts_with(&expected), "{reads_meanwhile}: {head}got {answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_only_when_everything_is_sent_is_answered() {
    const BODY_BYTES: usize = 8 << 20;
    let local = Local::ephemeral().await;
    for (status, head) in refused(&local).await {
        let mut raw = Raw::connect(local.address).await;
        raw.send(format!("{head}Host: a\r\nContent-Length: {BODY_BYTES}\r\n\r\n")).await;
        let sent = raw.0.write_all(&vec![b' '; BODY_BYTES]).await;
        assert!(sent.is_ok(), "{head}{sent:?}");
        let answer = raw.answer().await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}got {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_is_told_why_its_upload_is_refused() {
    let local = Local::ephemeral().await;
    let folder = leasehold_testkit::folder();
    let file = folder.path().join("body");
    std::fs::write(&file, vec![b' '; LARGE_BYTES]).unwrap();
    let refused = refused(&local).await;
    // `curl` cannot send two `Host` headers.
    let refused = refused.iter().filter(|(_, head)| !head.contains("Host:"));
    let refused = refused.flat_map(|(status, head)| {
        ["--http1.1", "--http2-prior-knowledge"].map(|version| (status, head, version))
    });
    for (status, head, version) in refused {
        let mut lines = head.lines();
        let mut first = lines.next().unwrap().split(' ');
        let (method, path) = (first.next().unwrap(), first.next().unwrap());
        let mut curl = std::process::Command::new("curl");
        curl.args([
            "-sS",
            version,
            "--max-time",
            "60",
            "-w",
            "%{http_code}",
            "-o",
            "/dev/null",
            "-X",
            method,
        ]);
        // Without this header, curl would wait for permission to send the body.
        curl.args(["-H", "Expect:", "-H", "Content-Type: application/json"]);
        for header in lines {
            curl.args(["-H", header]);
        }
        curl.arg("--data-binary").arg(format!("@{}", file.display()));
        curl.arg(format!("http://{}{path}", local.address));
        let ended = tokio::task::spawn_blocking(move || curl.output()).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert_eq!(said, status.to_string(), "{version}: {head}{ended:?}");
    }
}

/// A frame of HTTP/2: its type, its flags, and the number of its stream.
type Frame = (u8, u8, u32);

const DATA: u8 = 0;
const RESET: u8 = 3;
const PING: u8 = 6;
const END: u8 = 1;

/// Reads frames until this one.
async fn until(raw: &mut Raw, is_last: impl Fn(Frame) -> bool) -> Vec<Frame> {
    let mut frames = Vec::new();
    let reading = async {
        while !frames.last().is_some_and(|frame| is_last(*frame)) {
            let mut head = [0; 9];
            raw.0.read_exact(&mut head).await.expect("a frame");
            let [a, b, c, kind, flags, stream @ ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            raw.0.read_exact(&mut payload).await.expect("a payload");
            frames.push((kind, flags, u32::from_be_bytes(stream)));
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("it never came");
    frames
}

/// Begins a request whose body does not end, and returns once it is refused.
async fn begin_upload(local: &Local) -> Raw {
    let mut raw = Raw::connect(local.address).await;
    let path = "/v1/nope";
    let mut bytes = opening(path);
    // The flags before the stream's number and the headers no longer say that there is no body.
    let n_headers = 4 + path.len() + "\x01\x09localhost".len();
    let at = bytes.len() - n_headers - 5;
    assert_eq!(std::mem::replace(&mut bytes[at], 4), 5);
    raw.send(bytes).await;
    until(&mut raw, |(kind, flags, _)| kind == DATA && flags & END != 0).await;
    raw
}

#[tokio::test]
async fn an_upload_over_http2_that_is_refused_and_never_ends_is_reset_and_takes_no_stream() {
    let local = Local::ephemeral().await;
    let mut raw = begin_upload(&local).await;
    let metrics = local.client.get("/metrics").await.text;
    assert!(metrics.contains("leasehold_streams 0\n"), "{metrics}");
    until(&mut raw, |frame| frame == (RESET, 0, 1)).await;
    let is_none = async |client: &Client| {
        client.get("/metrics").await.text.contains("leasehold_streams_open 0\n")
    };
    local.until("no stream is open", is_none).await;
}

#[tokio::test]
async fn an_upload_over_http2_in_the_reserve_is_reset_with_its_response() {
    let mut settings = settings(None);
    settings.http.connections_max = 0;
    settings.http.restricted_timeout = PATIENCE;
    let local = Local::start(settings).await;
    let mut raw = begin_upload(&local).await;
    raw.send([0, 0, 8, PING, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]).await;
    let frames = until(&mut raw, |frame| frame == (PING, 1, 0)).await;
    assert!(frames.contains(&(RESET, 0, 1)), "{frames:?}");
}

#[tokio::test]
async fn an_expect_100_continue_request_is_refused_without_its_body() {
    let local = Local::ephemeral().await;
    for (status, head) in refused(&local).await {
        let mut raw = Raw::connect(local.address).await;
        raw.send(format!(
            "{head}Host: a\r\nExpect: 100-continue\r\nContent-Length: {BODY_BYTES}\r\n\r\n"
        ))
        .await;
        let answer = raw.rest().await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}got {answer:?}");
        assert!(answer.to_ascii_lowercase().contains("connection: close"), "{head}{answer}");
    }
    let small = post("/v1/locks/db/acquire", &json!({"owner_id": "a", "ttl_ms": 1000}));
    let (head, body) = small.split_once("\r\n\r\n").unwrap();
    let mut raw = Raw::connect(local.address).await;
    raw.send(format!("{head}\r\nExpect: 100-continue\r\n\r\n")).await;
    assert!(raw.answer().await.starts_with("HTTP/1.1 100 "), "what is wanted is asked for");
    raw.send(body).await;
    assert!(raw.answer().await.starts_with("HTTP/1.1 200 "));
}
