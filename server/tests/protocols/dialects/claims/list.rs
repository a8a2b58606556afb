//! Tests of `GET /v1/claims/`: filters and pages.

use leasehold_testkit::json;

use crate::dialects::claims::{Scene, ids, named};

#[tokio::test]
async fn the_allowed_filters_are_resource_ttl_creation_time_and_status() {
    let scene = Scene::start().await;
    scene.local.clock.set_wall_ms(1_794_709_123_500);
    let a = scene.claim("a", 10.0).await;
    scene.local.advance_ms(2000);
    let b = scene.claim("b/ü &", 20.5).await;
    let waiting = scene.claim("a", 10.0).await;
    let gone = scene.claim("c", 10.0).await;
    scene.set(gone, "aborted").await;
    scene.local.advance_ms(1000);
    for (query, expected) in [
        ("", vec![a, b, waiting, gone]),
        ("?resource=a", vec![a, waiting]),
        ("?resource=b%2F%C3%BC%20%26", vec![b]),
        ("?resource=A", vec![]),
        ("?status=active", vec![a, b]),
        ("?status=waiting&resource=a", vec![waiting]),
        ("?status=aborted", vec![gone]),
        ("?status=revoked", vec![]),
        ("?ttl=7", vec![a]),
        ("?ttl=19.5", vec![b]),
        ("?minimum_ttl=0", vec![a, b]),
        ("?minimum_ttl=7.0", vec![a, b]),
        ("?minimum_ttl=7.1", vec![b]),
        ("?maximum_ttl=19", vec![a]),
        ("?maximum_ttl=1e3", vec![a, b]),
        ("?minimum_ttl=8&maximum_ttl=7", vec![]),
        ("?created=2026-11-15T02:18:43Z", vec![a]),
        ("?created=Sun,%2015%20Nov%202026%2002:18:43%20-0000", vec![a]),
        ("?maximum_created=Sun,+15+Nov+2026+02:18:43+-0000", vec![a]),
        ("?minimum_created=2026-11-15T02:18:44", vec![b, waiting, gone]),
        ("?minimum_created=2026-11-15T03:18:44%2B01:00", vec![b, waiting, gone]),
        ("?minimum_created=2026-11-15T03:18:44+01:00", vec![b, waiting, gone]),
        ("?minimum_active_duration=3", vec![a]),
        ("?maximum_active_duration=0", vec![gone]),
        ("?minimum_waiting_duration=1", vec![waiting]),
        ("?maximum_waiting_duration=0.5", vec![a, b, gone]),
    ] {
        assert_eq!(scene.list(query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn a_bad_value_or_an_unknown_filter_is_400_by_name() {
    let scene = Scene::start().await;
    for (query, expected) in [
        ("x=1", vec!["x"]),
        ("wait=1", vec!["wait"]),
        ("minimum_resource=a", vec!["minimum_resource"]),
        ("minimum_=1", vec!["minimum_"]),
        ("active_duration=1", vec!["active_duration"]),
        ("status=gone", vec!["status"]),
        ("status=", vec!["status"]),
        ("resource=", vec!["resource"]),
        ("ttl=x&limit=x&offset=x", vec!["limit", "offset", "ttl"]),
        ("ttl=", vec!["ttl"]),
        ("ttl=NaN", vec!["ttl"]),
        ("maximum_ttl=inf", vec!["maximum_ttl"]),
        ("minimum_waiting_duration=1s", vec!["minimum_waiting_duration"]),
        ("created=yesterday", vec!["created"]),
        ("minimum_created=1794709123", vec!["minimum_created"]),
        ("limit=0", vec!["limit"]),
        ("limit=1001", vec!["limit"]),
        ("limit=-1", vec!["limit"]),
        ("limit=%2B1", vec!["limit"]),
        ("offset=-1", vec!["offset"]),
        ("offset=99999999999999999999999", vec!["offset"]),
        ("status=active&status=waiting", vec!["status"]),
    ] {
        let answer = scene.local.client.get(&format!("/v1/claims/?{query}")).await;
        assert_eq!(named(&answer), expected, "{query}");
    }
}

#[tokio::test]
async fn a_negative_bound_is_a_number_like_others() {
    let scene = Scene::start().await;
    scene.claim("r", 10.0).await;
    for (query, n) in [
        ("ttl=-1", 0),
        ("maximum_ttl=-0.5", 0),
        ("minimum_ttl=-1", 1),
        ("maximum_waiting_duration=-1", 0),
        ("minimum_waiting_duration=-1e9", 1),
        ("minimum_active_duration=-1", 1),
        ("maximum_active_duration=-1", 0),
    ] {
        assert_eq!(scene.list(&format!("?{query}")).await.len(), n, "{query}");
    }
}

#[tokio::test]
async fn pages_are_linked_and_miss_nothing() {
    let scene = Scene::start().await;
    for n in 0..7 {
        scene.claim(if n % 2 == 0 { "even" } else { "odd" }, 10.0).await;
    }
    let mut path = "/v1/claims?limit=2&resource=even".to_owned();
    let mut seen = Vec::new();
    loop {
        let answer = scene.local.client.get(&path).await;
        let page = ids(&answer);
        assert!(page.len() <= 2);
        seen.extend(page);
        let Some(link) = answer.headers.get("link") else { break };
        let link = link.to_str().unwrap();
        let url = link.strip_prefix('<').and_then(|l| l.strip_suffix(">; rel=\"next\"")).unwrap();
        path = url.strip_prefix(&format!("http://{}", scene.local.address)).unwrap().into();
    }
    assert_eq!(seen, [1, 3, 5, 7]);
    assert!(scene.list("?offset=100").await.is_empty());
    assert!(scene.list("?offset=18446744073709551615").await.is_empty());
}

#[tokio::test]
async fn a_page_is_100_unless_asked_otherwise() {
    let scene = Scene::start().await;
    let claims = (0..130).map(|_| scene.post(json!({"resource": "r", "timeout": 1})));
    for claim in claims {
        assert!([201, 202].contains(&claim.await.status));
    }
    let answer = scene.local.client.get("/v1/claims/").await;
    assert_eq!(ids(&answer), (1..=100).collect::<Vec<_>>());
    assert!(answer.headers["link"].to_str().unwrap().contains("?offset=100>"));
    assert_eq!(scene.list("?limit=1000").await.len(), 130);
}
