//! Tests of `POST /v1/claims/`, one for each sentence of the specification.

use leasehold_testkit::json;

use crate::dialects::claims::{Scene, history, id, named};

#[tokio::test]
async fn all_successful_posts_set_location_and_save_what_the_user_provided() {
    let scene = Scene::start().await;
    let address = scene.local.address;
    for (n, status) in [(1, 201), (2, 202)] {
        let metadata = json!({"z": [1, {"b": null}], "a": "ü"});
        let body = json!({"resource": "r", "timeout": 1.5, "metadata": metadata});
        let answer = scene.post(body).await;
        assert_eq!(answer.status, status);
        let url = format!("http://{address}/v1/claims/{n}/");
        assert_eq!(answer.headers["location"], url);
        assert_eq!(answer.get("url"), &json!(url));
        for answer in [&answer, &scene.get(n).await] {
            assert_eq!(answer.get("resource"), "r");
            assert_eq!(answer.get("timeout"), &json!(1.5));
            assert_eq!(answer.get("metadata"), &metadata);
            assert_eq!(answer.get("user_data"), &metadata);
        }
    }
}

#[tokio::test]
async fn all_successful_posts_set_creation_time_and_status() {
    let scene = Scene::start().await;
    scene.local.clock.set_wall_ms(1_794_709_123_999);
    let answer = scene.post(json!({"resource": "r", "timeout": 10})).await;
    assert_eq!(answer.get("created"), "Sun, 15 Nov 2026 02:18:43 -0000");
    assert_eq!(answer.get("status"), "active");
}

#[tokio::test]
async fn posts_without_contention_return_201_and_are_active_with_ttl_set_to_timeout() {
    let scene = Scene::start().await;
    let answer = scene.post(json!({"resource": "r", "timeout": 10})).await;
    assert_eq!(answer.status, 201);
    let expected = json!({
        "url": format!("http://{}/v1/claims/1/", scene.local.address),
        "resource": "r",
        "status": "active",
        "created": "Thu, 01 Jan 1970 00:00:00 -0000",
        "timeout": 10.0,
        "ttl": 10.0,
        "active_duration": 0.0,
        "waiting_duration": 0.0,
        "status_history": [
            {"status": "waiting", "timestamp": "Thu, 01 Jan 1970 00:00:00 -0000"},
            {"status": "active", "timestamp": "Thu, 01 Jan 1970 00:00:00 -0000"},
        ],
        "metadata": null,
        "user_data": null,
        "fencing_token": 1,
    });
    assert_eq!(answer.body, expected);
    assert!(answer.text.contains(r#""timeout":10.0,"ttl":10.0"#), "floats: {}", answer.text);
}

#[tokio::test]
async fn posts_with_contention_return_202_and_wait() {
    let scene = Scene::start().await;
    scene.claim("r", 10.0).await;
    let answer = scene.post(json!({"resource": "r", "timeout": 10})).await;
    assert_eq!(answer.status, 202);
    assert_eq!(answer.get("status"), "waiting");
    assert_eq!(history(&answer), ["waiting"]);
    for name in ["ttl", "active_duration", "fencing_token"] {
        assert!(answer.get(name).is_null(), "{name}");
    }
    assert_eq!(answer.get("waiting_duration"), &json!(0.0));
    assert_eq!(scene.post(json!({"resource": "another", "timeout": 10})).await.status, 201);
}

#[tokio::test]
async fn missing_mandatory_parameters_are_400_each_by_name() {
    let scene = Scene::start().await;
    let answer = scene.post(json!({})).await;
    let expected = json!({"resource": "No resource specified", "timeout": "No timeout specified"});
    assert_eq!((answer.status, &answer.body), (400, &expected));
    assert_eq!(named(&scene.post(json!({"resource": "r"})).await), ["timeout"]);
    assert_eq!(named(&scene.post(json!({"timeout": 1})).await), ["resource"]);
}

#[tokio::test]
async fn unknown_parameters_are_400_by_name() {
    let scene = Scene::start().await;
    let body = json!({"resource": "r", "timeout": 1, "x": 1, "status": "active"});
    assert_eq!(named(&scene.post(body).await), ["status", "x"]);
    assert!(scene.list("").await.is_empty(), "a refusal changes nothing");
}

#[tokio::test]
async fn other_names_existing_clients_send_are_understood() {
    let scene = Scene::start().await;
    let answer = scene.post(json!({"resource": "r", "ttl": 2.5, "user_data": [1]})).await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.get("timeout"), &json!(2.5));
    assert_eq!(answer.get("metadata"), &json!([1]));
    let both = json!({"resource": "r", "ttl": 1, "timeout": 1});
    assert_eq!(named(&scene.post(both).await), ["ttl"]);
    let both = json!({"resource": "r", "ttl": 1, "metadata": null, "user_data": null});
    assert_eq!(named(&scene.post(both).await), ["user_data"]);
}

#[tokio::test]
async fn a_timeout_of_0_is_answered_as_active_and_is_expired_right_after() {
    let scene = Scene::start().await;
    let answer = scene.post(json!({"resource": "r", "timeout": 0})).await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.get("status"), "active");
    assert_eq!(answer.get("ttl"), &json!(0.0));
    let after = scene.get(id(&answer)).await;
    assert_eq!(history(&after), ["waiting", "active", "expired"]);
    assert_eq!(scene.post(json!({"resource": "r", "timeout": 1})).await.status, 201);
}
