//! What is said if a request is answered neither here nor elsewhere.

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use leasehold_api::Code;

use super::relay::HOLD_MAX;
use super::{LEADER, NOT_LEADING};
use crate::app::failure;
use crate::store::Leader;

/// For clients that would rather ask the one that leads.
pub(crate) fn not_leader(leader: Option<&Leader>) -> Response {
    let why = match leader {
        Some(leader) => {
            format!("this server does not lead; {} does, at {}", leader.node, leader.address)
        }
        None => "this server does not lead, and nobody is known to".into(),
    };
    told_who_leads(leader, &why)
}

/// The servers cannot say to each other whose certificate it was without somebody on the way hearing it.
pub(super) fn uncertified(leader: &Leader) -> Response {
    let address = &leader.address;
    told_who_leads(
        Some(leader),
        &format!(
            "client certificates count only where they are shown, because the servers speak to each other without \
             TLS: ask {address}"
        ),
    )
}

fn told_who_leads(leader: Option<&Leader>, why: &str) -> Response {
    let mut response = failure(StatusCode::MISDIRECTED_REQUEST, Code::NotLeader, why);
    tell_who_leads(leader, &mut response);
    response
}

/// Says where the one is that leads, if that is known.
pub(crate) fn tell_who_leads(leader: Option<&Leader>, response: &mut Response) {
    let address = leader.and_then(|leader| HeaderValue::from_str(&leader.address).ok());
    if let Some(address) = address {
        response.headers_mut().insert(LEADER, address);
    }
}

/// To another server: this one does not lead either.
pub(super) fn not_leading() -> Response {
    let mut response = not_leader(None);
    response.headers_mut().insert(NOT_LEADING, HeaderValue::from_static("1"));
    response
}

/// To whoever is no other server.
pub(super) fn stranger() -> Response {
    let why = "this address answers only the other servers of the same store (peer-listen, peer-secret-file)";
    let mut response = failure(StatusCode::FORBIDDEN, Code::Forbidden, why);
    response.headers_mut().insert(NOT_LEADING, HeaderValue::from_static("1"));
    response
}

/// Nothing was done.
pub(super) fn nobody_leads() -> Response {
    let seconds = HOLD_MAX.as_secs();
    unavailable(
        Code::Busy,
        &format!(
            "no server could be found that leads within {seconds} s; the request had no effect"
        ),
    )
}

/// The answer did not come. What only looks may be asked again by whoever wants to know.
pub(super) fn lost(is_safe: bool) -> Response {
    match is_safe {
        true => unavailable(
            Code::Busy,
            "the connection to the server that leads was lost; the request had no effect",
        ),
        false => unavailable(
            Code::Unknown,
            "the connection to the server that leads was lost; it is not known whether the request took effect: \
             repeat it with the same request_id",
        ),
    }
}

/// Goes with a response of ours that says so, for whoever can say it better.
#[derive(Clone, Copy)]
pub(crate) struct Unanswered;

fn unavailable(code: Code, why: &str) -> Response {
    let mut response = failure(StatusCode::SERVICE_UNAVAILABLE, code, why);
    response.extensions_mut().insert(Unanswered);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
