//! The native dialect as its clients speak it: a question becomes a request, which goes through the server's own front
//! door, and the response becomes an answer.

use std::future::poll_fn;
use std::task::Poll;

use axum::body::Body;
use axum::http::{Request as HttpRequest, StatusCode};
use http_body_util::BodyExt;
use leasehold_core::{LeaseId, LeaseNumber, Mode, Secret, Token};
use leasehold_server::door::{Door, Visitor};
use leasehold_server::engine::Expiry;
use serde_json::{Value, json};

use crate::front::{name, namespace};
use crate::message::{Acquire, Answer, Claim, Lock, Request, Seen};

/// What the state of the server may be answered with.
const MAY_BE_REFUSED: [StatusCode; 2] = [StatusCode::CONFLICT, StatusCode::TOO_MANY_REQUESTS];

/// Can it be said here? Sessions are asked for without the door: the names the server gives them are random. So
/// is whatever is about several locks.
pub fn can_ask(request: &Request) -> bool {
    match request {
        Request::Acquire(acquire) => acquire.session.is_none() && acquire.others.is_empty(),
        Request::Renew { claims, .. } | Request::Release { claims, .. } => claims.len() == 1,
        Request::Look(_) | Request::Revoke(_) => true,
        Request::OpenSession(_) | Request::KeepSession(_) | Request::CloseSession(_) => false,
    }
}

/// Asks at the door. Dropping the future is going away, at whichever point the answer is.
pub async fn ask(door: Door, client: usize, request: Request) -> Answer {
    let asked = to_http(client, &request);
    let answered = door.answer(Visitor::LOCAL, asked).await;
    // The answer is made, but nobody has taken it yet: whoever goes now never hears of it.
    step().await;
    let response = answered.deliver();
    let status = response.status();
    let body = response.into_body().collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    from_http(&request, status, &body)
}

/// Lets others go first, once.
async fn step() {
    let mut has_waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn to_http(client: usize, request: &Request) -> HttpRequest<Body> {
    let owner_id = client.to_string();
    let request_id = request.request_id().map(|id| format!("r{id}"));
    let of = |claim: &Claim| {
        let (lease_id, token) = (render(claim.id), claim.token.get());
        json!({"owner_id": owner_id, "lease_id": lease_id, "fencing_token": token})
    };
    let (method, lock, verb, mut body) = match request {
        Request::Acquire(acquire) => ("POST", acquire.lock, "/acquire", wanted(&owner_id, acquire)),
        Request::Renew { claims, extend_ms, .. } => {
            let mut body = of(&claims[0]);
            body["extend_by_ms"] = (*extend_ms).into();
            ("POST", claims[0].lock, "/renew", body)
        }
        Request::Release { claims, .. } => ("POST", claims[0].lock, "/release", of(&claims[0])),
        Request::Revoke(lock) => ("POST", *lock, "/revoke", json!({"reason": "simulated"})),
        Request::Look(lock) => ("GET", *lock, "", Value::Null),
        Request::OpenSession(_) | Request::KeepSession(_) | Request::CloseSession(_) => {
            unreachable!("asked without the door")
        }
    };
    if let Some(request_id) = request_id {
        body["request_id"] = request_id.into();
    }
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let uri = format!("/v1/namespaces/{}/locks/{}{verb}", namespace(lock), name(lock));
    let request = HttpRequest::builder().method(method).uri(uri).header("host", "localhost");
    request.body(body).expect("a request")
}

fn wanted(owner_id: &str, acquire: &Acquire) -> Value {
    let mut body =
        json!({"owner_id": owner_id, "ttl_ms": acquire.ttl_ms, "wait_ms": acquire.wait_ms});
    match acquire.mode {
        // For the others there is no such thing, and to ask for it is a mistake.
        Mode::Exclusive => body["grace_ms"] = acquire.grace_ms.into(),
        Mode::Shared => body["mode"] = "shared".into(),
        Mode::Counted(limit) => body["limit"] = limit.into(),
    }
    body
}

fn from_http(request: &Request, status: StatusCode, body: &Value) -> Answer {
    let reason = body["reason"].as_str().or(body["code"].as_str()).unwrap_or_default();
    match (request, status, reason) {
        (Request::Acquire(acquire), StatusCode::OK, _) => {
            let claims = vec![claim(acquire.lock, body).expect("a lease")];
            Answer::Granted { claims, expiry: expiry(body) }
        }
        (Request::Renew { .. }, StatusCode::OK, _) => Answer::Renewed { expiry: expiry(body) },
        (Request::Release { .. }, StatusCode::OK, _) => Answer::Released,
        (Request::Revoke(_), StatusCode::OK, _) => Answer::Revoked,
        (Request::Look(_), StatusCode::OK, _) => seen(body),
        (_, _, "HELD") => Answer::Held(owner(&body["current_owner_id"])),
        (_, _, "GRACE") => match owner(&body["current_owner_id"]) {
            Some(owner) => Answer::InGrace(owner),
            None => Answer::Refused("a grace of nobody".into()),
        },
        (_, _, "WAIT_TIMEOUT") => Answer::WaitOver,
        (_, _, "NOT_OWNER" | "NOT_OWNER_OR_EXPIRED") => Answer::NotYours,
        (_, _, "EXPIRED") => Answer::Over,
        (_, _, "BUSY_RETRY" | "BUSY") => Answer::Busy,
        (_, _, "OVERLOADED" | "JOURNAL_FULL") => Answer::Overloaded,
        (_, _, "SHUTTING_DOWN") => Answer::Stopping,
        (_, _, "UNKNOWN") => Answer::Unknown,
        (_, _, "REQUEST_ID_SPENT") => Answer::Spent,
        // Clients here make mistakes about leases, never about HTTP: a door that turns them away would test nothing.
        _ if status.is_client_error() && !MAY_BE_REFUSED.contains(&status) => {
            panic!("turned away at the door: {status}: {body}")
        }
        _ => Answer::Refused(format!("{status}: {body}")),
    }
}

fn claim(lock: Lock, body: &Value) -> Option<Claim> {
    let token = Token::new(body["fencing_token"].as_u64()?)?;
    Some(Claim { lock, id: parse(body["lease_id"].as_str()?)?, token })
}

fn expiry(body: &Value) -> Option<Expiry> {
    let in_ms = body["expires_in_ms"].as_u64()?;
    Some(Expiry { in_ms, after_send_ms: body["expires_after_send_ms"].as_u64()? })
}

fn seen(body: &Value) -> Answer {
    let holders = body["holders"].as_array().into_iter().flatten();
    let holder = |holder: &Value| {
        Some((owner(&holder["owner_id"])?, Token::new(holder["fencing_token"].as_u64()?)?))
    };
    Answer::Seen(Seen {
        last_token: Token::new(body["last_token"].as_u64().unwrap_or(0)).unwrap_or(Token::ZERO),
        holders: holders.filter_map(holder).collect(),
        n_waiting: body["n_waiting"].as_u64().unwrap_or(0) as usize,
    })
}

fn owner(owner_id: &Value) -> Option<usize> {
    owner_id.as_str().map(|owner| owner.parse().expect("owners are named after clients"))
}

/// As it is on the wire: the lease's number and its secret.
fn render(id: LeaseId) -> String {
    let secret: String = id.secret.0.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}.{secret}", id.number.0)
}

fn parse(text: &str) -> Option<LeaseId> {
    let (number, secret) = text.split_once('.')?;
    let secret = u128::from_str_radix(secret, 16).ok()?.to_be_bytes();
    Some(LeaseId { number: LeaseNumber(number.parse().ok()?), secret: Secret(secret) })
}
