//! How much somebody may have, and how often they may ask.

use leasehold_testkit::Value;

use crate::{NAMES, RULES, Scene, acquire};

#[tokio::test]
async fn leases_are_counted_by_principal_whatever_the_owner() {
    let rules = RULES.to_owned() + "[[quota]]\nwho = [\"key:taker\"]\nleases = 2\n";
    let scene = Scene::with(&rules, &NAMES, |_| {}).await;
    for n in 0..3 {
        let line = format!("POST /v1/locks/l{n}/acquire");
        let taken = scene.send("taker", &line, acquire(&format!("owner-{n}"))).await;
        assert_eq!(taken.status, if n < 2 { 200 } else { 429 }, "{taken:?}");
        if n == 2 {
            let told = "too many leases of this principal: 2 allowed (quota in auth-file)";
            assert!(taken.text_of("error").starts_with(told), "{taken:?}");
        }
    }
    assert_eq!(scene.send("other", "POST /v1/locks/l9/acquire", acquire("o")).await.status, 200);
    scene.stop().await;
}

#[tokio::test]
async fn requests_are_limited_with_a_retry_after_that_is_true() {
    let rules = RULES.to_owned() + "[[quota]]\nwho = [\"*\"]\nrequests-per-second = 3\n";
    let scene = Scene::with(&rules, &NAMES, |_| {}).await;
    let look = async |who| scene.send(who, "GET /v1/locks/x", Value::Null).await;
    for _ in 0..3 {
        assert_eq!(look("reader").await.status, 200);
    }
    let refused = look("reader").await;
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(look("taker").await.status, 200, "each by itself");
    scene.local.advance_ms(1000);
    assert_eq!(look("reader").await.status, 200);
    scene.stop().await;
}

#[tokio::test]
async fn wrong_credentials_are_limited_and_right_ones_are_not() {
    for wrong in ["Bearer lh_a_b", "Bearer something-else"] {
        limited([("authorization", wrong)]).await;
    }
}

async fn limited(wrong: [(&str, &str); 1]) {
    let scene = Scene::with(RULES, &NAMES, |settings| settings.auth.failures_per_minute = 3).await;
    for n in 0..6 {
        let (status, head) = scene.head(&wrong, "GET /v1/locks/x", "").await;
        assert_eq!(status, if n < 3 { 401 } else { 429 });
        assert_eq!(head.contains("retry-after: 20"), n >= 3, "{head}");
    }
    assert_eq!(
        scene.send("reader", "GET /v1/locks/x", Value::Null).await.status,
        200,
        "a neighbour"
    );
    assert_eq!(
        scene.send("", "GET /v1/locks/x", Value::Null).await.status,
        401,
        "no credential is no wrong one"
    );
    scene.local.advance_ms(20_000);
    assert_eq!(scene.status(&wrong, "GET /v1/locks/x", "").await, 401);
    scene.stop().await;
}
