//! Tests, for every dialect, that a grant is released if its response is dropped before delivery.

use std::time::Duration;

use leasehold_testkit::Bare;

use crate::delivery::{Outcome, PATIENCE};

/// Requests for a lock, each with the path under which the lock can be read.
const ASKED: [(&str, &str); 7] = [
    (
        "POST /v1/locks/a/acquire\ncontent-type: application/json\n\n\
         {\"owner_id\":\"o\",\"ttl_ms\":60000}",
        "default/locks/a",
    ),
    (
        "POST /v1/namespaces/n/locks/a/acquire\ncontent-type: application/json\n\n\
         {\"owner_id\":\"o\",\"ttl_ms\":60000}",
        "n/locks/a",
    ),
    (
        "POST /v1/acquire\ncontent-type: application/json\n\n\
         {\"owner_id\":\"o\",\"ttl_ms\":60000,\"locks\":[{\"lock_name\":\"b\"},{\"lock_name\":\"c\"}]}",
        "default/locks/c",
    ),
    ("POST /lock?client=o&job=d&ttl=60s", "default/locks/d"),
    (
        "POST /leases/acquire\ncontent-type: application/json\nx-owner-id: o\n\n\
         {\"tenant_id\":\"t\",\"lock_key\":\"e\",\"owner_id\":\"o\",\"ttl_seconds\":60,\"request_id\":\"r\"}",
        "t/locks/e",
    ),
    (
        "POST /v1/claims/\ncontent-type: application/json\n\n{\"resource\":\"f\",\"timeout\":60}",
        "default/locks/f",
    ),
    ("POST /g.txt?lock=acquire\nauthorization: Bearer SESSION", "files/locks/%2Fg.txt"),
];

fn with_host(text: &str) -> Vec<u8> {
    match text.split_once('\n') {
        Some((first, rest)) => format!("{first}\nhost: a\n{rest}").into(),
        None => format!("{text}\nhost: a").into(),
    }
}

fn told(bare: &Bare, text: &str) -> (u16, String) {
    let (status, body) = bare.told(&with_host(text), PATIENCE).expect("an answer");
    (status.as_u16(), body)
}

pub(crate) fn dropped_answers() -> Outcome {
    let bare = Bare::new();
    let (_, opened) = told(&bare, "POST /auth/session");
    let session = opened.split('"').find(|word| word.len() > 20).expect("a session");
    for (asked, lock) in ASKED {
        let asked = asked.replace("SESSION", session);
        let is_held =
            || told(&bare, &format!("GET /v1/namespaces/{lock}")).1.contains("\"held\":true");
        let answer = bare.answer(&with_host(&asked), Duration::from_secs(20)).expect("an answer");
        assert!(answer.response.status().is_success(), "{asked}: {:?}", answer.response);
        assert!(is_held(), "{asked}: it is the client's to be");
        drop(answer);
        if is_held() {
            return Err(format!("{asked}: the grant was not delivered, and it is held"));
        }
        assert!(told(&bare, &asked).0 < 300, "{asked}: it can be had again");
        if !is_held() {
            return Err(format!("{asked}: the grant was delivered, and it is released"));
        }
    }
    Ok(())
}

#[test]
fn a_grant_is_released_if_its_answer_is_dropped() {
    dropped_answers().unwrap();
}
