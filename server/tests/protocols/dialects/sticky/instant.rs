//! Tests of the exact instants at which a lock's state changes: it is expired when `now >= expires_at`, and its grace
//! is over when `now >= grace_until`.

use crate::dialects::sticky::{
    Homelab, check_expired, check_free, check_grace, check_granted, check_held, check_not_holder,
    check_released, time,
};

const EXPIRES_MS: u64 = 30_000;
const GRACE_MS: u64 = 35_000;

/// Starts a server on which `laptop1` acquired the lock at 0 s for 30 s. Advances the clock to `ms`.
async fn at(ms: u64) -> Homelab {
    let lab = Homelab::start().await;
    check_granted(&lab.post("client=laptop1&ttl=30s").await, "acquired", 1);
    lab.at_ms(ms);
    lab
}

#[tokio::test]
async fn a_millisecond_before_expires_at_it_is_held() {
    let lab = at(EXPIRES_MS - 1).await;
    let shown = lab.get("").await;
    assert_eq!(
        (shown.get("is_expired"), shown.text_of("message").as_str()),
        (&false.into(), "lock held")
    );
    check_held(&lab.post("client=laptop2").await, "laptop1", "10:30:00");
    check_not_holder(&lab.delete("client=laptop2").await);
    check_granted(&lab.post("client=laptop1").await, "renewed", 1);
    check_released(&lab.delete("client=laptop1").await);
}

#[tokio::test]
async fn at_expires_at_it_is_expired_and_in_grace() {
    let lab = at(EXPIRES_MS).await;
    let shown = lab.get("").await;
    assert_eq!(
        (shown.get("is_expired"), shown.text_of("holder")),
        (&true.into(), "laptop1".into())
    );
    assert_eq!(shown.text_of("expires_at"), time("10:30:00"));
    assert_eq!(shown.text_of("grace_until"), time("10:30:05"));
    check_grace(&lab.post("client=laptop2").await, "laptop1", "10:30:05");
    check_not_holder(&lab.delete("client=laptop2").await);
    check_granted(&lab.post("client=laptop1").await, "acquired", 2);
}

#[tokio::test]
async fn a_millisecond_before_grace_until_it_is_in_grace() {
    let lab = at(GRACE_MS - 1).await;
    assert_eq!(lab.get("").await.text_of("holder"), "laptop1");
    check_grace(&lab.post("client=laptop2").await, "laptop1", "10:30:05");
    check_granted(&lab.post("client=laptop1").await, "acquired", 2);
    let lab = at(GRACE_MS - 1).await;
    check_released(&lab.delete("client=laptop1").await);
    check_free(&lab.get("").await);
}

#[tokio::test]
async fn at_grace_until_it_is_free() {
    let lab = at(GRACE_MS).await;
    check_expired(&lab.get("").await, "laptop1", "10:30:00", "10:30:05");
    check_not_holder(&lab.delete("client=laptop2").await);
    check_granted(&lab.post("client=laptop2").await, "acquired from laptop1", 2);
    check_held(&lab.post("client=laptop1").await, "laptop2", "10:30:35");
}

#[tokio::test]
async fn at_grace_until_the_last_holder_has_no_precedence() {
    let lab = at(GRACE_MS).await;
    check_granted(&lab.post("client=laptop1").await, "acquired", 2);
}

#[tokio::test]
async fn reads_and_failed_attempts_change_no_deadline() {
    let lab = at(0).await;
    for ms in [1, 29_999, 30_000, 30_001, 32_000, 34_999] {
        lab.at_ms(ms);
        assert_eq!(lab.post("client=laptop2").await.status, 409, "{ms}");
        assert_eq!(lab.get("").await.text_of("grace_until"), time("10:30:05"), "{ms}");
    }
    lab.at_ms(GRACE_MS);
    check_granted(&lab.post("client=laptop2").await, "acquired from laptop1", 2);
}

#[tokio::test]
async fn a_ttl_below_a_second_is_exact_and_shown_rounded_down() {
    let lab = Homelab::start().await;
    let taken = lab.post("client=laptop1&ttl=1999ms").await;
    assert_eq!(taken.text_of("expires_at"), time("10:29:31"));
    assert_eq!(taken.number("expires_in_ms"), 1999);
    lab.at_ms(1998);
    assert_eq!(lab.get("").await.get("is_expired"), false);
    lab.at_ms(1999);
    assert_eq!(lab.get("").await.get("is_expired"), true);
}
