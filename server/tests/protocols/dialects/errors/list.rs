//! Tests of the parameters of lists, and of the fields that lists never contain.

use leasehold_testkit::json;

use crate::dialects::errors::{Scene, get};

#[tokio::test]
async fn a_parameter_that_makes_no_sense_is_named() {
    let scene = Scene::new().await;
    let cases = [
        ("colour=red", "colour"),
        ("Prefix=a", "Prefix"),
        ("namespace=other", "namespace"),
        ("=", ""),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=-1", "limit"),
        ("limit=1.5", "limit"),
        ("limit=ten", "limit"),
        ("limit=", "limit"),
        ("limit=18446744073709551616", "limit"),
        ("limit=5&limit=5", "limit"),
        ("prefix=a&prefix=b", "prefix"),
        ("state=", "state"),
        ("state=busy", "state"),
        ("state=HELD", "state"),
        ("cursor=", "cursor"),
        ("cursor=-1", "cursor"),
        ("cursor=1.5", "cursor"),
        ("cursor=zzz", "cursor"),
        ("cursor=616", "cursor"),
        ("cursor=6A", "cursor"),
    ];
    for (query, field) in cases {
        for path in ["/v1/locks", "/v1/namespaces/other/locks"] {
            let ask = get(&format!("{path}?{query}"));
            scene.refuses(ask, 400, "INVALID_REQUEST", field).await;
        }
    }
}

#[tokio::test]
async fn a_cursor_beyond_the_end_finds_nothing() {
    let scene = Scene::new().await;
    for cursor in ["7a", "7a7a"] {
        let list = scene.send(get(&format!("/v1/locks?cursor={cursor}"))).await;
        assert_eq!((list.status, &list.body), (200, &json!({"locks": [], "next_cursor": null})));
    }
}

#[tokio::test]
async fn following_the_cursor_meets_every_lock_once() {
    let scene = Scene::new().await;
    for n in 0..7 {
        let lock = format!("row-{n}");
        assert_eq!(scene.local.client.acquire(&lock, "b", 1000, json!({})).await.status, 200);
    }
    for limit in [1, 2, 3, 7, 1000] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/locks?prefix=row-&owner=b&state=held&limit={limit}{cursor}");
            let page = scene.local.client.get(&path).await;
            let locks = page.get("locks").as_array().expect("a list");
            assert!(locks.len() <= limit, "{}", page.text);
            seen.extend(locks.iter().map(|lock| lock["lock_name"].as_str().map(String::from)));
            match page.get("next_cursor").as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let all: Vec<_> = (0..7).map(|n| Some(format!("row-{n}"))).collect();
        assert_eq!(seen, all, "limit {limit}");
    }
}

#[tokio::test]
async fn a_lease_id_is_shown_only_to_its_owner() {
    let scene = Scene::new().await;
    let body = json!({"owner_id": "b", "ttl_ms": 1000, "wait_ms": 1000});
    let waiting = scene.waits("job", body, 1).await;
    let lease_id = scene.job.text_of("lease_id");
    let secret = lease_id.split('.').nth(1).expect("a number and a secret");
    for path in ["/v1/locks/job", "/v1/locks", "/v1/locks?owner=a&state=held", "/metrics"] {
        let shown = scene.local.client.get(path).await.text;
        assert!(!shown.contains(secret) && !shown.contains("lease_id"), "{path}: {shown}");
        assert!(!shown.contains(&scene.session_id), "{path}: {shown}");
    }
    let refused = scene.local.client.acquire("job", "a", 1000, json!({})).await;
    assert!(!refused.text.contains(secret), "{}", refused.text);
    assert_eq!(scene.local.client.release(&scene.job, json!({})).await.status, 200);
    assert_eq!(waiting.await.expect("no panic").status, 200);
}
