//! Tests of health checks, other operator calls, and the `X-Request-Id` header.

use std::collections::BTreeSet;

use leasehold_testkit::json;

use crate::dialects::errors::Scene;
use crate::dialects::errors::raw::Raw;

#[tokio::test]
async fn a_server_that_is_well_says_so() {
    let scene = Scene::new().await;
    for path in ["/healthz", "/livez", "/readyz", "/leaderz"] {
        let response = scene.local.client.get(path).await;
        assert_eq!((response.status, response.body), (200, json!({"status": "ok"})), "{path}");
    }
}

const COUNTED: [&str; 7] = [
    "lock_acquire_total",
    "lock_renew_total",
    "lock_release_total",
    "lock_op_latency_ms",
    "lock_db_busy_total",
    "locks_held",
    "lock_expired_total",
];

#[tokio::test]
async fn the_metrics_have_exactly_the_documented_names_and_labels() {
    let scene = Scene::new().await;
    let text = scene.local.client.get("/metrics").await.text;
    let series: Vec<_> = text.lines().filter(|line| line.starts_with("lock")).collect();
    let name = |line: &&str| {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        let part = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
        part.unwrap_or(name).to_owned()
    };
    assert_eq!(series.iter().map(name).collect::<BTreeSet<_>>(), COUNTED.map(String::from).into());
    for op in ["acquire", "renew", "release"] {
        for result in ["success", "fail", "busy"] {
            let wanted = format!("lock_{op}_total{{result=\"{result}\"}} ");
            assert_eq!(
                series.iter().filter(|line| line.starts_with(&wanted)).count(),
                1,
                "{wanted}"
            );
        }
        assert!(text.contains(&format!("lock_db_busy_total{{op=\"{op}\"}} 0\n")), "{op}: {text}");
        assert!(
            text.contains(&format!("lock_op_latency_ms_count{{op=\"{op}\"}} ")),
            "{op}: {text}"
        );
    }
    assert_eq!(series.iter().filter(|line| line.contains("_total{")).count(), 12);
    assert!(!text.contains("job"), "no lock's name is a label: {text}");
}

#[tokio::test]
async fn what_happens_is_counted() {
    let scene = Scene::new().await;
    let client = &scene.local.client;
    assert_eq!(client.acquire("job", "b", 1000, json!({})).await.status, 409);
    assert_eq!(client.renew(&scene.job, 60_000, json!({})).await.status, 200);
    assert_eq!(client.acquire("soon", "b", 1000, json!({})).await.status, 200);
    scene.local.advance_ms(1000);
    assert_eq!(client.get("/v1/locks/soon").await.get("held"), false);
    let held = async |client: &leasehold_testkit::Client| {
        client.get("/metrics").await.text.contains("\nlocks_held 1\n")
    };
    scene.local.until("one lock is held", held).await;
    assert_eq!(client.release(&scene.job, json!({})).await.status, 200);
    assert_eq!(client.release(&scene.job, json!({})).await.status, 409);
    assert_eq!(client.renew(&scene.job, 1000, json!({})).await.status, 409);
    let text = client.get("/metrics").await.text;
    for line in [
        "lock_acquire_total{result=\"success\"} 2",
        "lock_acquire_total{result=\"fail\"} 1",
        "lock_renew_total{result=\"success\"} 1",
        "lock_renew_total{result=\"fail\"} 1",
        "lock_release_total{result=\"success\"} 1",
        "lock_release_total{result=\"fail\"} 1",
        "lock_expired_total 1",
        "lock_op_latency_ms_count{op=\"acquire\"} 3",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} in {text}");
    }
}

#[tokio::test]
async fn a_request_id_in_the_header_is_echoed_whatever_the_answer() {
    let scene = Scene::new().await;
    for (path, status) in
        [("/healthz", 200), ("/v1/locks/job", 200), ("/v1/nope", 404), ("/v1/locks/%FF", 400)]
    {
        let headers = "X-Request-ID: trace-1 {\"x\"}\r\nconnection: close\r\n";
        let mut raw = Raw::get(scene.local.address, path, headers).await;
        let head = raw.until("\r\n\r\n").await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {head}");
        assert!(head.contains("\r\nx-request-id: trace-1 {\"x\"}\r\n"), "{path}: {head}");
    }
    let response = scene.local.client.get("/v1/locks/job").await;
    assert!(!response.headers.contains_key("x-request-id"), "the client sent none");
}
