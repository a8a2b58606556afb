//! Tests of malformed input: each request is refused with a message and changes nothing.

use std::time::Duration;

use hyper::Method;
use leasehold_testkit::{folder, json, settings};

use crate::dialects::sticky::{
    Homelab, check, check_free, check_granted, check_held, check_released,
};

#[tokio::test]
async fn a_ttl_is_a_go_duration_above_zero_and_up_to_the_maximum() {
    let lab = Homelab::start().await;
    for ttl in [
        "0",
        "0s",
        "-1s",
        "-0s",
        "30",
        "s",
        "soon",
        "1d",
        "1h%2030m",
        "30s%20",
        "+30s",
        "%2B-1s",
        "1e3s",
        "3000000h",
        "1000000000000000000000000h",
        "%00",
        "%D9%A3s",
        "30s%26",
    ] {
        let refused = lab.post(&format!("client=laptop1&ttl={ttl}")).await;
        check(&refused, 400, json!({"error": "invalid ttl format"}));
    }
    for ttl in ["48h", "24h1ns", "24h0m0.000000001s", "2562047h"] {
        let refused = lab.post(&format!("client=laptop1&ttl={ttl}")).await;
        check(&refused, 400, json!({"error": "ttl: must be at most 1d (ttl-max)"}));
    }
    check_free(&lab.get("").await);
    for (ttl, ms) in [
        ("1h30m", 5_400_000),
        ("1.5s", 1_500),
        ("500ms", 500),
        ("%2B2s", 2_000),
        ("5000us", 5),
        ("5000%C2%B5s", 5),
        ("5000%CE%BCs", 5),
        ("5000000ns", 5),
        ("1ns", 0),
        ("24h", 86_400_000),
    ] {
        let job = format!("job-{ttl}");
        let taken = lab.post(&format!("client=laptop1&ttl={ttl}&job={job}")).await;
        assert_eq!((taken.status, taken.number("expires_in_ms")), (200, ms), "{ttl}");
    }
}

#[tokio::test]
async fn unknown_and_repeated_parameters_are_refused() {
    let lab = Homelab::start().await;
    let words = |answer: &leasehold_testkit::Response, word: &str| {
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.text_of("error").contains(word), "{answer:?}");
    };
    words(&lab.post("client=a&tll=5s").await, "tll");
    words(&lab.post("client=a&Client=b").await, "Client");
    words(&lab.post("client=a&client=b").await, "client");
    words(&lab.post("client=a&ttl=1s&ttl=2s").await, "ttl");
    words(&lab.delete("client=a&ttl=5s").await, "ttl");
    words(&lab.get("client=a").await, "client");
    words(&lab.get("job=a&job=b").await, "job");
    check_free(&lab.get("").await);
}

#[tokio::test]
async fn what_is_no_text_is_refused_so_that_two_clients_never_become_one() {
    let lab = Homelab::start().await;
    let refused = json!({"error": "the query: is not percent-encoded UTF-8"});
    for client in ["%FF", "%FE", "%C3", "%", "%4", "%zz", "a%ED%A0%80"] {
        check(&lab.post(&format!("client={client}")).await, 400, refused.clone());
        check(&lab.delete(&format!("client={client}")).await, 400, refused.clone());
        check(&lab.get(&format!("job={client}")).await, 400, refused.clone());
    }
}

#[tokio::test]
async fn names_are_any_text_up_to_their_length() {
    let lab = Homelab::start().await;
    let (long, longer) = ("x".repeat(256), "x".repeat(257));
    check(
        &lab.post(&format!("client={longer}")).await,
        400,
        json!({"error": "client: must have from 1 to 256 bytes (owner-bytes-max)"}),
    );
    check(
        &lab.delete(&format!("client={longer}")).await,
        400,
        json!({"error": "client: must have from 1 to 256 bytes (owner-bytes-max)"}),
    );
    check_granted(&lab.post(&format!("client={long}")).await, "acquired", 1);
    check_released(&lab.delete(&format!("client={long}")).await);
    let (long, longer) = ("x".repeat(512), "x".repeat(513));
    let too_long = json!({"error": "job: must have from 1 to 512 bytes (name-bytes-max)"});
    check(&lab.post(&format!("client=a&job={longer}")).await, 400, too_long.clone());
    check(&lab.delete(&format!("client=a&job={longer}")).await, 400, too_long.clone());
    check(&lab.get(&format!("job={longer}")).await, 400, too_long);
    check_granted(&lab.post(&format!("client=a&job={long}")).await, "acquired", 1);
    for (sent, name) in
        [("%22%0A%5C", "\"\n\\"), ("a+b", "a b"), ("%F0%9F%94%92", "🔒"), ("a%00", "a\0")]
    {
        let taken = lab.post(&format!("client={sent}&job={sent}")).await;
        assert_eq!((taken.text_of("holder"), taken.text_of("job")), (name.into(), name.into()));
        check_released(&lab.delete(&format!("client={sent}&job={sent}")).await);
    }
}

#[tokio::test]
async fn jobs_have_nothing_to_do_with_each_other() {
    let lab = Homelab::start().await;
    check_granted(&lab.post("client=laptop1").await, "acquired", 1);
    check_granted(&lab.post("client=laptop2&job=photos").await, "acquired", 1);
    check_held(&lab.post("client=laptop1&job=photos").await, "laptop2", "10:30:00");
    assert_eq!(lab.get("").await.text_of("holder"), "laptop1");
    assert_eq!(lab.get("job=photos").await.text_of("holder"), "laptop2");
    assert_eq!(lab.get("job=photos").await.text_of("job"), "photos");
    check_free(&lab.get("job=Photos").await);
    check_released(&lab.delete("client=laptop2&job=photos").await);
    assert_eq!(lab.get("job=default").await.text_of("holder"), "laptop1");
    assert_eq!(lab.get("job=").await.text_of("holder"), "laptop1", "empty is left out");
}

#[tokio::test]
async fn other_methods_are_405_with_allow_and_other_paths_are_404() {
    let lab = Homelab::start().await;
    let client = &lab.local.client;
    for method in [Method::PUT, Method::PATCH, Method::OPTIONS] {
        let refused = client.send(method, "/lock?client=a", None, "").await.expect("an answer");
        assert_eq!(refused.status, 405);
        let allow = refused.headers["allow"].to_str().expect("text");
        for method in ["GET", "HEAD", "POST", "DELETE"] {
            assert!(allow.contains(method), "{allow}");
        }
    }
    for path in ["/lock/", "/lock/a", "/Lock", "/lockx"] {
        assert_eq!(client.get(path).await.status, 404, "{path}");
    }
    let head = client.send(Method::HEAD, "/lock", None, "").await.expect("an answer");
    assert_eq!((head.status, head.text.as_str()), (200, ""));
}

#[tokio::test]
async fn a_body_is_not_asked_for_and_not_read() {
    let lab = Homelab::start().await;
    let client = &lab.local.client;
    let path = "/lock?client=laptop1";
    let form = Some("application/x-www-form-urlencoded");
    let taken = client.send(Method::POST, path, form, "client=laptop2").await.expect("an answer");
    assert_eq!(taken.text_of("holder"), "laptop1");
}

#[tokio::test]
async fn a_busy_database_is_503_with_retry_after_and_nothing_is_done() {
    let folder = folder();
    let lab = Homelab::with(settings(Some(folder.path()))).await;
    check_granted(&lab.post("client=laptop1").await, "acquired", 1);
    let other = rusqlite::Connection::open(folder.path().join("journal.db")).expect("a database");
    other.busy_timeout(Duration::from_secs(10)).expect("a setting");
    other.execute_batch("BEGIN IMMEDIATE").expect("the database");
    let why = json!({"error": "another process holds the database; the request had no effect"});
    let answers = [
        lab.post("client=laptop1&ttl=1h").await,
        lab.post("client=laptop2").await,
        lab.delete("client=laptop1").await,
        lab.get("").await,
    ];
    for answer in answers {
        check(&answer, 503, why.clone());
        assert_eq!(answer.headers["retry-after"], "1");
    }
    other.execute_batch("ROLLBACK").expect("the database");
    check_held(&lab.post("client=laptop2").await, "laptop1", "10:30:00");
}

#[tokio::test]
async fn too_many_locks_are_429_with_retry_after() {
    let mut settings = settings(None);
    settings.engine.limits.principal_leases_max = 1;
    let lab = Homelab::with(settings).await;
    check_granted(&lab.post("client=laptop1").await, "acquired", 1);
    let full = lab.post("client=laptop1&job=other").await;
    assert_eq!(full.status, 429);
    assert!(full.text_of("error").contains("limit: 1 (principal-leases-max)"), "{full:?}");
    assert_eq!(full.headers["retry-after"], "1");
    check_granted(&lab.post("client=laptop1").await, "renewed", 1);
}
