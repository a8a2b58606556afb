//! Tests in which order a request is checked: authentication (401), validity (400), authorization (403).

use leasehold_testkit::{Value, json};

use crate::auth::{Scene, acquire};

#[tokio::test]
async fn what_makes_no_sense_is_told_so_before_what_is_not_allowed() {
    let scene = Scene::new().await;
    let long = "x".repeat(600);
    let mut odd = acquire("o");
    odd["ttl_ms"] = json!(u64::MAX);
    let owner = acquire(&"o".repeat(300));
    let wait = json!({"owner_id": "o", "ttl_ms": 1000, "wait_ms": u64::MAX});
    let id = json!({"owner_id": "o", "ttl_ms": 1000, "request_id": "r".repeat(200)});
    let renew = json!({"owner_id": "o", "lease_id": "1-0", "fencing_token": 1, "extend_by_ms": 1});
    let revoke = json!({"reason": "r"});
    let locks = json!([{"lock_name": "x"}, {"lock_name": long}]);
    let all = json!({"owner_id": "o", "ttl_ms": 1000, "locks": locks});
    let held = json!([{"lock_name": long, "lease_id": "1-0", "fencing_token": 1}]);
    let renew_all = json!({"owner_id": "o", "extend_by_ms": 1, "leases": held});
    for (line, body) in [
        ("POST /v1/locks/x/acquire".to_owned(), odd),
        ("POST /v1/locks/x/acquire".into(), owner.clone()),
        ("POST /v1/locks/x/acquire".into(), wait),
        ("POST /v1/locks/x/acquire".into(), id),
        (format!("POST /v1/locks/{long}/acquire"), acquire("o")),
        (format!("POST /v1/locks/{long}/renew"), renew),
        (format!("POST /v1/locks/{long}/revoke"), revoke),
        ("POST /v1/locks/x/revoke".into(), json!({"reason": "r".repeat(2000)})),
        (format!("GET /v1/locks/{long}"), Value::Null),
        (format!("GET /v1/locks/{long}/history"), Value::Null),
        (format!("GET /v1/events?lock={long}"), Value::Null),
        (format!("GET /v1/namespaces/{long}/locks"), Value::Null),
        (format!("GET /v1/namespaces/{long}/locks/x"), Value::Null),
        ("POST /v1/fence/check".into(), json!({"lock_name": long, "fencing_token": 1})),
        ("POST /v1/acquire".into(), all),
        ("POST /v1/renew".into(), renew_all),
        ("POST /v1/sessions".into(), owner),
        (format!("POST /lock?client=c&job={long}"), Value::Null),
        (format!("POST /lock?client={}", "c".repeat(300)), Value::Null),
        ("POST /lock?client=c&ttl=9999h".into(), Value::Null),
        (format!("GET /lock?job={long}"), Value::Null),
    ] {
        for (who, expected) in [("", 401), ("nothing", 400), ("admin", 400)] {
            let answer = scene.send(who, &line, body.clone()).await;
            let line: String = line.chars().take(60).collect();
            assert_eq!(answer.status, expected, "{who:?} {line}: {}", answer.text);
            assert!(answer.text.len() < 400, "{line}: what is too long is not repeated");
        }
    }
    // A valid request is checked for its right, and a long name is not repeated in full.
    let name = "x".repeat(512);
    let refused = scene.send("nothing", &format!("GET /v1/locks/{name}"), Value::Null).await;
    assert_eq!(refused.status, 403);
    assert!(refused.text.len() < 1000, "{}", refused.text);
    scene.stop().await;
}
