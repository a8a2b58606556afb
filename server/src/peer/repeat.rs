//! Waits that can be repeated at another leader: the request id keeps their place.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http_body_util::{BodyExt, Collected, Limited};
use hyper::body::Incoming;
use leasehold_api::Code;
use serde::Deserialize;
use tokio::time::Instant;

use super::relay::HOLD_MAX;
use super::uplink::Loss;

/// Pause before the next try if no new leader is known.
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// Maximum size of a response without an effect.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// Returns whether the body is of a wait with a request id.
pub(super) fn is_repeatable_wait(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct WaitBody {
        request_id: String,
        wait_ms: u64,
    }
    let wait = serde_json::from_slice(body);
    wait.is_ok_and(|WaitBody { request_id, wait_ms }| !request_id.is_empty() && wait_ms > 0)
}

/// The unknown outcome of a request that was passed on.
#[derive(Default)]
pub(super) struct Doubt {
    /// The seat of the leader that did not report the outcome.
    seat: Option<i64>,
    /// The lost requests. When they are dropped, the leaders that might still have them give them up.
    losses: Vec<Loss>,
}

impl Doubt {
    /// Returns whether the request might have taken effect.
    pub(super) fn is_left(&self) -> bool {
        self.seat.is_some()
    }

    /// Records that the leader in this seat did not report the outcome. Returns until when to look for another leader.
    pub(super) fn arises(&mut self, seat: i64, loss: Option<Loss>, until: Instant) -> Instant {
        self.losses.extend(loss);
        match self.seat.replace(seat) {
            Some(before) if before == seat => until,
            _ => Instant::now() + HOLD_MAX,
        }
    }
}

/// How a leader ended a wait.
pub(super) enum Ended {
    /// Without a result: another leader, or the same one later, might know the outcome.
    Undecided,
    /// The leader sent a response for the client.
    Answer(Response),
}

/// Evaluates a 503 response to a wait that can be repeated. `is_in_doubt`: an earlier try might have taken effect.
pub(super) async fn ended(response: Response<Incoming>, is_in_doubt: bool) -> Ended {
    let (head, body) = response.into_parts();
    let read = Limited::new(body, REFUSAL_BYTES_MAX).collect().await;
    let Ok(body) = read.map(Collected::to_bytes) else { return Ended::Undecided };
    match is_undecided(&body, is_in_doubt) {
        true => Ended::Undecided,
        false => Ended::Answer(Response::from_parts(head, Body::from(body))),
    }
}

/// A busy leader has done nothing, so `BUSY` is an answer, unless an earlier try might have taken effect.
fn is_undecided(body: &[u8], is_in_doubt: bool) -> bool {
    #[derive(Deserialize)]
    struct RefusalBody {
        code: Code,
    }
    let said = serde_json::from_slice(body);
    said.is_ok_and(|RefusalBody { code }| match code {
        Code::Unknown | Code::ShuttingDown => true,
        Code::Busy => is_in_doubt,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wait_with_a_request_id_is_asked_for_again() {
        for (body, is_so) in [
            (r#"{"owner_id":"a","request_id":"r","wait_ms":1000}"#, true),
            (r#"{"request_id":"r","wait_ms":0}"#, false),
            (r#"{"request_id":"","wait_ms":1000}"#, false),
            (r#"{"request_id":"r"}"#, false),
            (r#"{"wait_ms":1000}"#, false),
            (r#"{"request_id":7,"wait_ms":1000}"#, false),
            (r#"{"request_id":"r","wait_ms":1000"#, false),
            ("", false),
        ] {
            assert_eq!(is_repeatable_wait(body.as_bytes()), is_so, "{body}");
        }
    }

    #[test]
    fn a_refusal_with_a_reason_is_an_answer() {
        for (code, expected) in [
            ("UNKNOWN", (true, true)),
            ("SHUTTING_DOWN", (true, true)),
            ("BUSY", (false, true)),
            ("JOURNAL_FULL", (false, false)),
        ] {
            let body = format!(r#"{{"error":"e","code":"{code}","retryable":true}}"#);
            let undecided = |is_in_doubt| is_undecided(body.as_bytes(), is_in_doubt);
            assert_eq!((undecided(false), undecided(true)), expected, "{code}");
        }
        assert!(!is_undecided(b"x", true));
    }

    #[tokio::test]
    async fn each_leader_has_its_time() {
        let mut doubt = Doubt::default();
        let begin = Instant::now();
        assert!(!doubt.is_left());
        let until = doubt.arises(1, None, begin);
        assert!(doubt.is_left() && until >= begin + HOLD_MAX);
        assert_eq!(doubt.arises(1, None, until), until, "the same one again");
        assert!(doubt.arises(2, None, begin) >= until, "another one");
    }
}
