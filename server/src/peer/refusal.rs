//! Responses for requests that neither this server nor another one can answer.

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use leasehold_api::Code;

use super::relay::HOLD_MAX;
use super::{LEADER, NOT_LEADING};
use crate::app::failure;
use leasehold_store::Leader;

/// Returns the response for clients that connect to the leader themselves: it names the leader.
pub(crate) fn not_leader(leader: Option<&Leader>) -> Response {
    let why = match leader {
        Some(leader) => {
            format!("this server is not the leader; {} is, at {}", leader.node, leader.address)
        }
        None => "this server is not the leader, and no leader is known".into(),
    };
    told_who_leads(leader, &why)
}

/// Returns the response for a client with a certificate. Its names cannot be forwarded, because peer connections are
/// not encrypted.
pub(super) fn uncertified(leader: &Leader) -> Response {
    let address = &leader.address;
    told_who_leads(
        Some(leader),
        &format!(
            "client certificates work only at the leader, because requests between servers use no TLS; use {address}"
        ),
    )
}

fn told_who_leads(leader: Option<&Leader>, why: &str) -> Response {
    let mut response = failure(StatusCode::MISDIRECTED_REQUEST, Code::NotLeader, why);
    tell_who_leads(leader, &mut response);
    response
}

/// Adds the leader's address to the response, if the leader is known.
pub(crate) fn tell_who_leads(leader: Option<&Leader>, response: &mut Response) {
    let address = leader.and_then(|leader| HeaderValue::from_str(&leader.address).ok());
    if let Some(address) = address {
        response.headers_mut().insert(LEADER, address);
    }
}

/// Returns the response to a peer that this server does not lead either.
pub(super) fn not_leading() -> Response {
    let mut response = not_leader(None);
    response.headers_mut().insert(NOT_LEADING, HeaderValue::from_static("1"));
    response
}

/// Returns the response to a client that is not a peer.
pub(super) fn stranger() -> Response {
    let why =
        "this address accepts only servers of the same cluster (peer-listen, peer-secret-file)";
    let mut response = failure(StatusCode::FORBIDDEN, Code::Forbidden, why);
    response.headers_mut().insert(NOT_LEADING, HeaderValue::from_static("1"));
    response
}

/// Returns the response if there is no leader. The request had no effect.
pub(super) fn no_leader() -> Response {
    let seconds = HOLD_MAX.as_secs();
    unavailable(
        Code::Busy,
        &format!("found no leader within {seconds}s; the request had no effect"),
    )
}

/// Returns the response if the leader's response was lost. A read can be repeated safely.
pub(super) fn lost(is_safe: bool) -> Response {
    match is_safe {
        true => unavailable(
            Code::Busy,
            "the connection to the leader was lost; the request had no effect",
        ),
        false => unavailable(
            Code::Unknown,
            "the connection to the leader was lost; the request might have taken effect; repeat it with the same \
             request_id",
        ),
    }
}

/// Marks responses of this module, so that the console can replace them with a page.
#[derive(Clone, Copy)]
pub(crate) struct Unanswered;

fn unavailable(code: Code, why: &str) -> Response {
    let mut response = failure(StatusCode::SERVICE_UNAVAILABLE, code, why);
    response.extensions_mut().insert(Unanswered);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
