//! The native dialect as its clients use it: a request is converted to HTTP and goes through the server's own front,
//! and the HTTP response is converted back.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::Poll;

use axum::body::Body;
use axum::http::{Request as HttpRequest, StatusCode};
use http_body_util::BodyExt;
use leasehold_core::{LeaseId, LeaseNumber, Mode, Secret, Token};
use leasehold_engine::Expiry;
use leasehold_server::door::{Door, Visitor};
use serde_json::{Value, json};

use crate::front::{name, namespace};
use crate::message::{Acquire, Answer, Claim, Lock, Request, Seen, SessionId};

/// The client errors that can be caused by the state of the server.
const MAY_BE_REFUSED: [StatusCode; 2] = [StatusCode::CONFLICT, StatusCode::TOO_MANY_REQUESTS];

/// Returns whether a request can be sent over HTTP. Leases in several namespaces cannot be named together, because the
/// path contains one namespace. Neither can the same lease be named twice, once with a wrong token: a rejection names
/// the lease, and it would be unclear which of the two is meant.
pub fn can_ask(request: &Request) -> bool {
    match request {
        Request::Renew { claims, .. } | Request::Release { claims, .. } => {
            let namespaces: BTreeSet<_> =
                claims.iter().map(|claim| namespace(claim.lock)).collect();
            let numbers: BTreeSet<_> = claims.iter().map(|claim| claim.id.number.0).collect();
            namespaces.len() == 1 && numbers.len() == claims.len()
        }
        _ => true,
    }
}

/// Sends a request through the HTTP front. Dropping the future closes the client's connection, however far the response
/// is.
pub async fn ask(door: Door, client: usize, request: Request) -> Answer {
    let asked = to_http(client, &request);
    let answered = door.answer(Visitor::LOCAL, asked).await;
    // The response is ready but not delivered yet. A client that disconnects now never receives it.
    step().await;
    let response = answered.deliver();
    let status = response.status();
    let body = response.into_body().collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    from_http(&request, status, &body)
}

/// Yields to other tasks once.
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
    let (method, path, mut body) = match request {
        Request::Acquire(acquire) if acquire.others.is_empty() => {
            ("POST", Path::Lock(acquire.lock, "/acquire"), wanted(&owner_id, acquire))
        }
        Request::Acquire(acquire) => {
            ("POST", Path::Several(acquire.lock, "/acquire"), wanted_together(&owner_id, acquire))
        }
        Request::Renew { claims, extend_ms, .. } => {
            let (path, mut body) = proven(&owner_id, claims, "/renew");
            body["extend_by_ms"] = (*extend_ms).into();
            ("POST", path, body)
        }
        Request::Release { claims, .. } => {
            let (path, body) = proven(&owner_id, claims, "/release");
            ("POST", path, body)
        }
        Request::Revoke(lock) => {
            ("POST", Path::Lock(*lock, "/revoke"), json!({"reason": "simulated"}))
        }
        Request::Look(lock) => ("GET", Path::Lock(*lock, ""), Value::Null),
        Request::OpenSession(ttl_ms) => {
            ("POST", Path::Sessions, json!({"owner_id": owner_id, "ttl_ms": ttl_ms}))
        }
        Request::KeepSession(id) => ("POST", Path::Session(*id, "/keepalive"), Value::Null),
        Request::CloseSession(id) => ("DELETE", Path::Session(*id, ""), Value::Null),
    };
    // Requests for several leases have no request id: they can be repeated as they are.
    if let Some(request_id) = request_id
        && !matches!(
            (request, &path),
            (Request::Renew { .. } | Request::Release { .. }, Path::Several(..))
        )
    {
        body["request_id"] = request_id.into();
    }
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let uri = match path {
        Path::Lock(lock, verb) => {
            format!("/v1/namespaces/{}/locks/{}{verb}", namespace(lock), name(lock))
        }
        Path::Several(lock, verb) => format!("/v1/namespaces/{}{verb}", namespace(lock)),
        Path::Sessions => "/v1/sessions".into(),
        Path::Session(id, verb) => format!("/v1/sessions/{}{verb}", hex(&id.0)),
    };
    let request = HttpRequest::builder().method(method).uri(uri).header("host", "localhost");
    request.body(body).expect("a request")
}

/// The path of a request: for one lock, for several locks in the namespace of one, or for sessions.
enum Path {
    Lock(Lock, &'static str),
    Several(Lock, &'static str),
    Sessions,
    Session(SessionId, &'static str),
}

/// Returns the path and the body of a request for leases, with the proofs of ownership.
fn proven(owner_id: &str, claims: &[Claim], verb: &'static str) -> (Path, Value) {
    let of = |claim: &Claim| {
        let (lease_id, token) = (render(claim.id), claim.token.get());
        json!({"lease_id": lease_id, "fencing_token": token})
    };
    if let [claim] = claims {
        let mut body = of(claim);
        body["owner_id"] = owner_id.into();
        return (Path::Lock(claim.lock, verb), body);
    }
    let each = claims.iter().map(|claim| {
        let mut lease = of(claim);
        lease["lock_name"] = name(claim.lock).into();
        lease
    });
    let leases: Vec<_> = each.collect();
    (Path::Several(claims[0].lock, verb), json!({"owner_id": owner_id, "leases": leases}))
}

fn wanted_together(owner_id: &str, acquire: &Acquire) -> Value {
    let each = acquire.each().map(|(lock, mode)| {
        let mut body = json!({"lock_name": name(lock)});
        say_mode(&mut body, mode);
        body
    });
    let locks: Vec<_> = each.collect();
    let mut body = lasting(owner_id, acquire);
    body["locks"] = locks.into();
    if acquire.each().all(|(_, mode)| mode == Mode::Exclusive) {
        body["grace_ms"] = acquire.grace_ms.into();
    }
    body
}

fn say_mode(body: &mut Value, mode: Mode) {
    match mode {
        Mode::Exclusive => {}
        Mode::Shared => body["mode"] = "shared".into(),
        Mode::Counted(limit) => body["limit"] = limit.into(),
    }
}

fn wanted(owner_id: &str, acquire: &Acquire) -> Value {
    let mut body = lasting(owner_id, acquire);
    say_mode(&mut body, acquire.mode);
    // A grace period is an error in other modes.
    if acquire.mode == Mode::Exclusive {
        body["grace_ms"] = acquire.grace_ms.into();
    }
    body
}

/// Returns the fields for the owner, the TTL or session, and the wait.
fn lasting(owner_id: &str, acquire: &Acquire) -> Value {
    let mut body = json!({"owner_id": owner_id, "wait_ms": acquire.wait_ms});
    if let Some(ttl_ms) = acquire.ttl_ms {
        body["ttl_ms"] = ttl_ms.into();
    }
    if let Some(session) = acquire.session {
        body["session_id"] = hex(&session.0).into();
    }
    body
}

fn from_http(request: &Request, status: StatusCode, body: &Value) -> Answer {
    let answer = about_one(request, status, body);
    let is_of_member =
        matches!(answer, Answer::Held(_) | Answer::InGrace(_) | Answer::NotYours | Answer::Over);
    let n = match request {
        Request::Release { claims, .. } if claims.len() > 1 => return released_each(status, body),
        _ if !is_of_member => return answer,
        Request::Acquire(acquire) if !acquire.others.is_empty() => {
            let named = |(lock, _)| body["lock_name"] == name(lock).as_str();
            acquire.each().position(named)
        }
        Request::Renew { claims, .. } if claims.len() > 1 => {
            let named = |claim: &Claim| body["lease_id"] == render(claim.id).as_str();
            claims.iter().position(named)
        }
        _ => return answer,
    };
    Answer::Member { n: n.expect("a refusal names what is in the way"), why: Box::new(answer) }
}

fn released_each(status: StatusCode, body: &Value) -> Answer {
    match body["leases"].as_array() {
        Some(leases) => {
            let is_released = |lease: &Value| lease["released"] == true;
            Answer::ReleasedEach(leases.iter().map(is_released).collect())
        }
        None => about_one(&Request::Revoke(0), status, body),
    }
}

fn about_one(request: &Request, status: StatusCode, body: &Value) -> Answer {
    let reason = body["reason"].as_str().or(body["code"].as_str()).unwrap_or_default();
    match (request, status, reason) {
        (Request::Acquire(acquire), StatusCode::OK, _) => {
            let one = std::slice::from_ref(body);
            let leases = body["leases"].as_array().map_or(one, Vec::as_slice);
            let claims = acquire.each().zip(leases).map(|((lock, _), lease)| claim(lock, lease));
            let claims = claims.collect::<Option<_>>().expect("leases");
            Answer::Granted { claims, expiry: expiry(body) }
        }
        (Request::Renew { .. }, StatusCode::OK, _) => Answer::Renewed { expiry: expiry(body) },
        (Request::Release { .. }, StatusCode::OK, _) => Answer::Released,
        (Request::Revoke(_), StatusCode::OK, _) => Answer::Revoked,
        (Request::Look(_), StatusCode::OK, _) => seen(body),
        (Request::OpenSession(_), StatusCode::CREATED, _) => Answer::SessionOpened {
            session: body["session_id"].as_str().and_then(session).expect("its name"),
            expiry: expiry(body).expect("it ends"),
        },
        (Request::KeepSession(_), StatusCode::OK, _) => {
            Answer::SessionKept { expiry: expiry(body).expect("it ends") }
        }
        (Request::CloseSession(_), StatusCode::NO_CONTENT, _) => Answer::SessionClosed,
        (_, _, "NO_SUCH_SESSION") => Answer::NoSession,
        (_, _, "HELD") => Answer::Held(owner(&body["current_owner_id"])),
        (_, _, "GRACE") => match owner(&body["current_owner_id"]) {
            Some(owner) => Answer::InGrace(owner),
            None => Answer::Refused("a grace period without an owner".into()),
        },
        (_, _, "WAIT_TIMEOUT") => Answer::WaitOver,
        (_, _, "NOT_OWNER" | "NOT_OWNER_OR_EXPIRED") => Answer::NotYours,
        (_, _, "EXPIRED") => Answer::Over,
        (_, _, "BUSY_RETRY" | "BUSY") => Answer::Busy,
        (_, _, "OVERLOADED" | "JOURNAL_FULL") => Answer::Overloaded,
        (_, _, "SHUTTING_DOWN" | "NOT_LEADER") => Answer::Stopping,
        (_, _, "UNKNOWN") => Answer::Unknown,
        (_, _, "REQUEST_ID_SPENT") => Answer::Spent,
        // Simulated clients make mistakes about leases, but never about HTTP. If the front rejected their requests, the
        // run would test nothing.
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

/// Returns a lease id as in HTTP: the lease's number and its secret.
fn render(id: LeaseId) -> String {
    format!("{}.{}", id.number.0, hex(&id.secret.0))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn session(name: &str) -> Option<SessionId> {
    let mut bytes = [0; 32];
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(name.get(2 * n..2 * n + 2)?, 16).ok()?;
    }
    Some(SessionId(bytes))
}

fn parse(text: &str) -> Option<LeaseId> {
    let (number, secret) = text.split_once('.')?;
    let secret = u128::from_str_radix(secret, 16).ok()?.to_be_bytes();
    Some(LeaseId { number: LeaseNumber(number.parse().ok()?), secret: Secret(secret) })
}
