//! The native dialect as its clients speak it: a question becomes a request, which goes through the server's own front
//! door, and the response becomes an answer.

use std::collections::BTreeSet;
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

/// Can it be said here? Sessions are asked for without the door: the names the server gives them are random. So are
/// several leases together of one lock or of several namespaces: a refusal names the lock, and nothing else.
pub fn can_ask(request: &Request) -> bool {
    match request {
        Request::Acquire(acquire) => acquire.session.is_none(),
        Request::Renew { claims, .. } | Request::Release { claims, .. } => {
            let locks: BTreeSet<_> = claims.iter().map(|claim| claim.lock).collect();
            let namespaces: BTreeSet<_> = locks.iter().map(|lock| namespace(*lock)).collect();
            locks.len() == claims.len() && namespaces.len() == 1
        }
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
    let (method, lock, path, mut body) = match request {
        Request::Acquire(acquire) if acquire.others.is_empty() => {
            ("POST", acquire.lock, Path::Lock("/acquire"), wanted(&owner_id, acquire))
        }
        Request::Acquire(acquire) => {
            ("POST", acquire.lock, Path::Several("/acquire"), wanted_together(&owner_id, acquire))
        }
        Request::Renew { claims, extend_ms, .. } => {
            let (path, mut body) = proven(&owner_id, claims, "/renew");
            body["extend_by_ms"] = (*extend_ms).into();
            ("POST", claims[0].lock, path, body)
        }
        Request::Release { claims, .. } => {
            let (path, body) = proven(&owner_id, claims, "/release");
            ("POST", claims[0].lock, path, body)
        }
        Request::Revoke(lock) => {
            ("POST", *lock, Path::Lock("/revoke"), json!({"reason": "simulated"}))
        }
        Request::Look(lock) => ("GET", *lock, Path::Lock(""), Value::Null),
        Request::OpenSession(_) | Request::KeepSession(_) | Request::CloseSession(_) => {
            unreachable!("asked without the door")
        }
    };
    // There is none for what is about several leases: it can be repeated as it is.
    if let Some(request_id) = request_id
        && !matches!(
            (request, &path),
            (Request::Renew { .. } | Request::Release { .. }, Path::Several(_))
        )
    {
        body["request_id"] = request_id.into();
    }
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let namespace = namespace(lock);
    let uri = match path {
        Path::Lock(verb) => format!("/v1/namespaces/{namespace}/locks/{}{verb}", name(lock)),
        Path::Several(verb) => format!("/v1/namespaces/{namespace}{verb}"),
    };
    let request = HttpRequest::builder().method(method).uri(uri).header("host", "localhost");
    request.body(body).expect("a request")
}

/// What is asked about one lock, or about several.
enum Path {
    Lock(&'static str),
    Several(&'static str),
}

/// Leases, with what proves them ours.
fn proven(owner_id: &str, claims: &[Claim], verb: &'static str) -> (Path, Value) {
    let of = |claim: &Claim| {
        let (lease_id, token) = (render(claim.id), claim.token.get());
        json!({"lease_id": lease_id, "fencing_token": token})
    };
    if let [claim] = claims {
        let mut body = of(claim);
        body["owner_id"] = owner_id.into();
        return (Path::Lock(verb), body);
    }
    let each = claims.iter().map(|claim| {
        let mut lease = of(claim);
        lease["lock_name"] = name(claim.lock).into();
        lease
    });
    let leases: Vec<_> = each.collect();
    (Path::Several(verb), json!({"owner_id": owner_id, "leases": leases}))
}

fn wanted_together(owner_id: &str, acquire: &Acquire) -> Value {
    let each = acquire.each().map(|(lock, mode)| {
        let mut body = json!({"lock_name": name(lock)});
        say_mode(&mut body, mode);
        body
    });
    let locks: Vec<_> = each.collect();
    let mut body = json!({"owner_id": owner_id, "ttl_ms": acquire.ttl_ms, "wait_ms": acquire.wait_ms, "locks": locks});
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
    let mut body =
        json!({"owner_id": owner_id, "ttl_ms": acquire.ttl_ms, "wait_ms": acquire.wait_ms});
    say_mode(&mut body, acquire.mode);
    // For the others there is no such thing, and to ask for it is a mistake.
    if acquire.mode == Mode::Exclusive {
        body["grace_ms"] = acquire.grace_ms.into();
    }
    body
}

fn from_http(request: &Request, status: StatusCode, body: &Value) -> Answer {
    let locks: Vec<Lock> = match request {
        Request::Acquire(acquire) => acquire.each().map(|(lock, _)| lock).collect(),
        Request::Renew { claims, .. } => claims.iter().map(|claim| claim.lock).collect(),
        Request::Release { claims, .. } if claims.len() > 1 => return released_each(status, body),
        _ => Vec::new(),
    };
    let answer = about_one(request, status, body);
    let is_of_member =
        matches!(answer, Answer::Held(_) | Answer::InGrace(_) | Answer::NotYours | Answer::Over);
    if locks.len() < 2 || !is_of_member {
        return answer;
    }
    let named = |lock: &Lock| body["lock_name"] == name(*lock).as_str();
    let n = locks.iter().position(named).expect("a refusal names its lock");
    Answer::Member { n, why: Box::new(answer) }
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
        (_, _, "SHUTTING_DOWN" | "NOT_LEADER") => Answer::Stopping,
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
