//! Checks that after the faults every request gets a response, every patient client gets its lock, and requests without
//! a wait get their response soon.

use super::Found;
use crate::client::PATIENT_MS;
use crate::history::History;
use crate::message::{Answer, Request};
use crate::time::{MS, SECOND};

/// A little more than the server's threads need to pass on a response, in any order.
const PASSED_ON_WITHIN: u64 = 200 * MS;

pub(super) fn check(history: &History, found: &mut Found) {
    for (id, operation) in history.operations.iter().enumerate() {
        let asked = &operation.request;
        match &operation.answer {
            None if !operation.is_given_up => {
                found.add("every request is answered", format!("{id} is not: {asked:?}"));
            }
            // A lease that is revoked before its response is reported as ended.
            Some((at, Answer::WaitOver)) if is_patient(asked) && !history.plan.revokes => {
                found.add("every request is served", format!("{id} is not, at {at}: {asked:?}"));
            }
            Some((at, _)) if operation.sent_at > history.plan.heal_at + SECOND => {
                let took = at - operation.sent_at;
                let allowed = history.plan.turn_max() + PASSED_ON_WITHIN;
                if asked.wait_ms() == 0 && took > allowed {
                    found.add(
                        "every request is answered soon",
                        format!("{id} after {took} ns: {asked:?}"),
                    );
                }
            }
            _ => {}
        }
    }
}

/// Returns whether a request waits for longer than the run lasts and does not depend on a session.
fn is_patient(request: &Request) -> bool {
    let in_session = matches!(request, Request::Acquire(acquire) if acquire.session.is_some());
    request.wait_ms() == PATIENT_MS && !in_session
}
