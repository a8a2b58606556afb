//! Tests of the dialect's original specification, one for each sentence.

use leasehold_testkit::json;

use crate::dialects::sticky::{
    Homelab, check, check_expired, check_free, check_grace, check_granted, check_held,
    check_not_holder, check_released, time,
};

#[tokio::test]
async fn handle_client_crashes_gracefully_via_ttl_expiration() {
    let lab = Homelab::start().await;
    check_granted(&lab.post("client=laptop1&ttl=10s").await, "acquired", 1);
    lab.at_s(15);
    check_granted(&lab.post("client=laptop2").await, "acquired from laptop1", 2);
}

#[tokio::test]
async fn when_a_lock_expires_the_previous_holder_gets_a_short_exclusive_window_to_reclaim_it() {
    let lab = Homelab::start().await;
    lab.post("client=laptop1&ttl=30s").await;
    lab.at_s(32);
    check_grace(&lab.post("client=laptop2").await, "laptop1", "10:30:05");
    check_granted(&lab.post("client=laptop1").await, "acquired", 2);
}

#[tokio::test]
async fn before_it_becomes_available_to_others() {
    let lab = Homelab::start().await;
    lab.post("client=laptop1&ttl=30s").await;
    lab.at_s(35);
    check_granted(&lab.post("client=laptop2").await, "acquired from laptop1", 2);
    check_held(&lab.post("client=laptop1").await, "laptop2", "10:30:35");
}

#[tokio::test]
async fn post_acquires_a_lock_200() {
    let lab = Homelab::start().await;
    let body = json!({
        "success": true, "job": "default", "holder": "laptop1", "message": "acquired",
        "expires_at": time("10:30:00"), "expires_in_ms": 30_000,
        "expires_after_send_ms": 30_000, "fencing_token": 1,
    });
    check(&lab.post("client=laptop1&ttl=30s").await, 200, body);
}

#[tokio::test]
async fn post_renews_a_lock_200() {
    let lab = Homelab::start().await;
    lab.post("client=laptop1&ttl=30s").await;
    lab.at_s(10);
    let body = json!({
        "success": true, "job": "default", "holder": "laptop1", "message": "renewed",
        "expires_at": time("10:30:10"), "expires_in_ms": 30_000,
        "expires_after_send_ms": 30_000, "fencing_token": 1,
    });
    check(&lab.post("client=laptop1&ttl=30s").await, 200, body);
}

#[tokio::test]
async fn client_is_required() {
    let lab = Homelab::start().await;
    let required = json!({"error": "client parameter required"});
    for query in ["", "ttl=30s", "client=", "client", "client=&ttl=nonsense", "job=a"] {
        check(&lab.post(query).await, 400, required.clone());
    }
    for query in ["", "client=", "job=a"] {
        check(&lab.delete(query).await, 400, required.clone());
    }
}

#[tokio::test]
async fn ttl_is_not_required_and_its_default_is_30s() {
    let lab = Homelab::start().await;
    for query in ["client=laptop1", "client=laptop1&ttl="] {
        assert_eq!(lab.post(query).await.text_of("expires_at"), time("10:30:00"), "{query}");
    }
}

#[tokio::test]
async fn post_409_lock_held_by_another_client() {
    let lab = Homelab::start().await;
    lab.post("client=laptop1&ttl=30s").await;
    check_held(&lab.post("client=laptop2&ttl=1s").await, "laptop1", "10:30:00");
}

#[tokio::test]
async fn post_409_or_grace_period() {
    let lab = Homelab::start().await;
    lab.post("client=laptop1&ttl=30s").await;
    lab.at_s(31);
    check_grace(&lab.post("client=laptop2&ttl=1s").await, "laptop1", "10:30:05");
}

#[tokio::test]
async fn delete_explicitly_releases_the_lock_200() {
    let lab = Homelab::start().await;
    lab.post("client=laptop1&ttl=30s").await;
    check_released(&lab.delete("client=laptop1").await);
    check_free(&lab.get("").await);
    // A release leaves no grace behind.
    check_granted(&lab.post("client=laptop2").await, "acquired", 2);
}

#[tokio::test]
async fn delete_client_must_match_current_holder_403() {
    let lab = Homelab::start().await;
    check_not_holder(&lab.delete("client=laptop1").await);
    lab.post("client=laptop1&ttl=30s").await;
    for client in ["laptop2", "laptop", "laptop11", "LAPTOP1", "%20laptop1"] {
        check_not_holder(&lab.delete(&format!("client={client}")).await);
    }
    assert_eq!(lab.get("").await.text_of("holder"), "laptop1");
    check_released(&lab.delete("client=laptop1").await);
    check_not_holder(&lab.delete("client=laptop1").await);
}

#[tokio::test]
async fn get_checks_current_lock_status() {
    let lab = Homelab::start().await;
    lab.post("client=laptop1&ttl=30s").await;
    let mut body = json!({
        "success": true, "holder": "laptop1", "expires_at": time("10:30:00"), "is_expired": false,
        "grace_until": time("10:30:05"), "job": "default", "message": "lock held",
    });
    check(&lab.get("").await, 200, body.clone());
    lab.at_s(31);
    body["is_expired"] = true.into();
    check(&lab.get("").await, 200, body.clone());
    // The specification never clears an expired lock.
    lab.at_s(3600);
    check(&lab.get("").await, 200, body);
}

#[tokio::test]
async fn get_or_if_no_lock() {
    let lab = Homelab::start().await;
    check_free(&lab.get("").await);
    lab.post("client=laptop1&ttl=30s").await;
    lab.at_s(36);
    check_expired(&lab.get("").await, "laptop1", "10:30:00", "10:30:05");
    check_released(&lab.delete("client=laptop1").await);
    check_free(&lab.get("").await);
}

#[tokio::test]
async fn rule_1_renew_sets_expires_at_to_now_plus_t_and_grace_until_to_that_plus_grace() {
    let lab = Homelab::start().await;
    lab.post("client=laptop1&ttl=30s").await;
    lab.at_s(10);
    // A renewal can also move the expiry to an earlier time.
    for (ttl, expires_at, grace_until) in
        [("60s", "10:30:40", "10:30:45"), ("5s", "10:29:45", "10:29:50")]
    {
        check_granted(&lab.post(&format!("client=laptop1&ttl={ttl}")).await, "renewed", 1);
        let shown = lab.get("").await;
        assert_eq!(shown.text_of("expires_at"), time(expires_at));
        assert_eq!(shown.text_of("grace_until"), time(grace_until));
    }
    lab.at_s(19);
    check_grace(&lab.post("client=laptop2").await, "laptop1", "10:29:50");
    lab.at_s(20);
    check_granted(&lab.post("client=laptop2").await, "acquired from laptop1", 2);
}

#[tokio::test]
async fn rule_1_holds_past_grace_as_long_as_no_other_client_took_the_lock() {
    let lab = Homelab::start().await;
    lab.post("client=laptop1&ttl=30s").await;
    lab.at_s(3600);
    check_granted(&lab.post("client=laptop1").await, "acquired", 2);
}

#[tokio::test]
async fn rule_2_held_by_someone_else_and_not_expired_is_409() {
    let lab = Homelab::start().await;
    lab.post("client=laptop1&ttl=30s").await;
    for s in [0, 10, 29] {
        lab.at_s(s);
        check_held(&lab.post("client=laptop2").await, "laptop1", "10:30:00");
    }
}

#[tokio::test]
async fn rule_3_expired_but_within_grace_grants_only_the_previous_holder() {
    let lab = Homelab::start().await;
    lab.post("client=laptop1&ttl=30s").await;
    lab.at_s(34);
    for client in ["laptop2", "laptop3"] {
        check_grace(&lab.post(&format!("client={client}")).await, "laptop1", "10:30:05");
    }
    check_granted(&lab.post("client=laptop1&ttl=30s").await, "acquired", 2);
    check_held(&lab.post("client=laptop2").await, "laptop1", "10:30:34");
}

#[tokio::test]
async fn rule_3_the_last_holder_can_give_the_grace_up() {
    let lab = Homelab::start().await;
    lab.post("client=laptop1&ttl=30s").await;
    lab.at_s(31);
    check_not_holder(&lab.delete("client=laptop2").await);
    check_released(&lab.delete("client=laptop1").await);
    check_free(&lab.get("").await);
    check_not_holder(&lab.delete("client=laptop1").await);
    check_granted(&lab.post("client=laptop2").await, "acquired", 2);
}

#[tokio::test]
async fn rule_4_expired_and_past_grace_grants_the_lock_to_any_client() {
    let lab = Homelab::start().await;
    lab.post("client=laptop1&ttl=30s").await;
    lab.at_s(3600);
    check_not_holder(&lab.delete("client=laptop2").await);
    check_granted(&lab.post("client=laptop2").await, "acquired from laptop1", 2);
    assert_eq!(lab.get("").await.text_of("holder"), "laptop2");
    check_not_holder(&lab.delete("client=laptop1").await);
}

#[tokio::test]
async fn example_client_loop_renews_at_a_third_of_the_ttl_and_deletes_on_shutdown() {
    let lab = Homelab::start().await;
    check_granted(&lab.post("client=myid&ttl=30s").await, "acquired", 1);
    for n in 1..=100 {
        lab.at_s(n * 10);
        check_granted(&lab.post("client=myid&ttl=30s").await, "renewed", 1);
        assert_eq!(lab.post("client=other").await.status, 409);
    }
    check_released(&lab.delete("client=myid").await);
    check_granted(&lab.post("client=other").await, "acquired", 2);
}

#[tokio::test]
async fn timeline_example() {
    let lab = Homelab::start().await;
    check_granted(&lab.post("client=laptop1&ttl=30s").await, "acquired", 1);
    lab.at_s(10);
    let renewed = lab.post("client=laptop1&ttl=30s").await;
    assert_eq!(renewed.text_of("expires_at"), time("10:30:10"), "t=40s");
    lab.at_s(20);
    let renewed = lab.post("client=laptop1&ttl=30s").await;
    assert_eq!(renewed.text_of("expires_at"), time("10:30:20"), "t=50s");
    lab.at_s(50);
    let shown = lab.get("").await;
    assert_eq!(shown.get("is_expired"), true);
    assert_eq!(shown.text_of("grace_until"), time("10:30:25"), "t=55s");
    lab.at_s(52);
    check_grace(&lab.post("client=laptop2").await, "laptop1", "10:30:25");
    lab.at_s(56);
    check_granted(&lab.post("client=laptop2").await, "acquired from laptop1", 2);
}

#[tokio::test]
async fn use_a_mutex_for_thread_safety_of_many_at_once_one_gets_it() {
    let lab = Homelab::start().await;
    let asking: Vec<_> = (0..50)
        .map(|n| {
            let client = lab.local.client.clone();
            tokio::spawn(async move {
                crate::dialects::sticky::post(&client, &format!("client=c{n}")).await.status
            })
        })
        .collect();
    let mut statuses = Vec::new();
    for asked in asking {
        statuses.push(asked.await.expect("no panic"));
    }
    statuses.sort_unstable();
    assert_eq!((statuses[0], statuses[1], statuses.len()), (200, 409, 50), "{statuses:?}");
}
