//! Formats audit lines: each is a JSON object of printable ASCII. Claims of the client are in a separate member and
//! shortened.

use std::sync::Arc;

use leasehold_auth::{By, Right};
use leasehold_base::calendar;
use leasehold_core::{Ending, Fact, LockKey, Note, What};
use leasehold_engine::Mismatch;
use leasehold_store::{Cursor, EventId};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::DialectNames;
use leasehold_engine::owner::shown;

/// Maximum characters of a client's claim.
const CLAIMED_CHARS_MAX: usize = 256;
const NAME_CHARS_MAX: usize = 4096;

/// A request that was refused for lack of authentication, of rights or of quota.
#[derive(Debug)]
pub struct Refused<'a> {
    /// Who asked.
    pub by: By,
    /// The status of the response.
    pub status: u16,
    /// The method of the request.
    pub method: &'a str,
    /// The route pattern, never the path, which might contain a secret.
    pub route: &'a str,
    /// The right and the lock that were denied, if the request got that far.
    pub wanted: Option<(Right, LockKey)>,
    /// The request id that the client claims.
    pub request_id: Option<&'a str>,
}

/// The outcome of a [`Mismatch`].
pub(super) const MISMATCH: &str = "proof-mismatch";

/// The kind of an act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The server, and what operators take from others.
    Admin,
    /// Sign-ins and sessions.
    Session,
    /// Files, states and objects.
    Content,
}

/// An act with its own audit line, in addition to the lines about leases.
#[derive(Clone, Debug)]
pub struct Act {
    kind: Kind,
    act: &'static str,
    by: By,
    lock: Option<LockKey>,
    detail: Map<String, Value>,
    claimed: Map<String, Value>,
}

impl Act {
    /// An act of an operator.
    pub fn new(act: &'static str, by: By) -> Self {
        Self::of(Kind::Admin, act, by)
    }

    /// An act of this kind.
    pub fn of(kind: Kind, act: &'static str, by: By) -> Self {
        Self { kind, act, by, lock: None, detail: Map::new(), claimed: Map::new() }
    }

    pub(super) fn principal(&self) -> &Arc<str> {
        &self.by.principal
    }

    /// Sets the lock that the act is about.
    pub fn on(mut self, lock: &LockKey) -> Self {
        self.lock = Some(lock.clone());
        self
    }

    /// Adds a fact that the server has verified.
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.detail.insert(name.into(), value.into());
        self
    }

    /// Adds a claim of the client that the server has not verified.
    pub fn claimed(mut self, name: &str, text: Option<&str>) -> Self {
        if let Some(text) = text {
            self.claimed.insert(name.into(), bounded(text).into());
        }
        self
    }
}

#[derive(Serialize, Default)]
struct AuditLine<'a> {
    /// RFC 3339, UTC.
    at: String,
    /// The journal position of a lease event.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// For acts that are not in the journal: the last journal position before them.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a str>,
    kind: &'static str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    act: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    right: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<Holder<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<By>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    detail: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    claimed: Map<String, Value>,
}

/// The owner of a lease.
#[derive(Serialize)]
struct Holder<'a> {
    principal: &'a str,
    /// The owner name that the client chose.
    owner_id: &'a str,
    dialect: String,
    lease: u64,
    token: u64,
    waited_ms: u64,
    held_ms: u64,
}

/// Returns the line for a lease event.
pub(super) fn of_fact(
    names: DialectNames,
    generation: u64,
    id: EventId,
    fact: &Fact,
    at_ms: i64,
) -> String {
    let Fact { what, lock, owner, dialect, .. } = fact;
    let shown = shown(*dialect, owner);
    let holder = Holder {
        principal: cut(&owner.principal, NAME_CHARS_MAX),
        owner_id: cut(&shown, NAME_CHARS_MAX),
        dialect: names.of(*dialect),
        lease: fact.lease.0,
        token: fact.token.get(),
        waited_ms: fact.waited.as_millis(),
        held_ms: fact.held.as_millis(),
    };
    let mut claimed = Map::new();
    // The reason of a note comes from the server, any other reason from the client.
    let mut detail = Map::new();
    if let Some(reason) = &fact.reason {
        let of = if matches!(what, What::Noted(_)) { &mut detail } else { &mut claimed };
        of.insert("reason".into(), bounded(reason).into());
    }
    written(&AuditLine {
        at: calendar::to_millis(at_ms),
        id: Some(Cursor { generation, id }.to_string()),
        kind: "lease",
        outcome: outcome(*what),
        namespace: Some(cut(&lock.namespace, NAME_CHARS_MAX)),
        lock: Some(cut(&lock.name, NAME_CHARS_MAX)),
        holder: Some(holder),
        by: fact.by().map(By::from),
        detail,
        claimed,
        ..AuditLine::default()
    })
}

fn outcome(what: What) -> &'static str {
    match what {
        What::Queued => "queued",
        What::Granted => "granted",
        What::Ended(Ending::Released) => "released",
        What::Ended(Ending::Expired) => "expired",
        What::Ended(Ending::Revoked) => "revoked",
        What::WaitEnded(Ending::Released) => "left",
        What::WaitEnded(Ending::Expired) => "timed-out",
        What::WaitEnded(Ending::Revoked) => "wait-revoked",
        What::Noted(Note::HeldLong) => "held-long",
        What::Noted(Note::WaitedLong) => "waited-long",
        What::Noted(Note::DeadlockSuspected) => "deadlock-suspected",
    }
}

pub(super) fn outcome_of(status: u16) -> &'static str {
    match status {
        401 => "unauthenticated",
        403 => "forbidden",
        _ => "limited",
    }
}

pub(super) fn of_mismatch(mismatch: &Mismatch, after: &str, wall_ms: i64) -> String {
    let Mismatch { by, operation, lock, lease } = mismatch;
    let mut detail = Map::new();
    detail.insert("operation".into(), (*operation).into());
    detail.insert("lease".into(), (*lease).into());
    written(&AuditLine {
        at: calendar::to_millis(wall_ms),
        after: Some(after),
        kind: "refused",
        outcome: MISMATCH,
        namespace: Some(cut(&lock.namespace, NAME_CHARS_MAX)),
        lock: Some(cut(&lock.name, NAME_CHARS_MAX)),
        by: Some(by.clone()),
        detail,
        ..AuditLine::default()
    })
}

pub(super) fn of_refusal(refused: &Refused<'_>, after: &str, wall_ms: i64) -> String {
    let mut claimed = Map::new();
    if let Some(id) = refused.request_id {
        claimed.insert("request_id".into(), bounded(id).into());
    }
    let lock = refused.wanted.as_ref().map(|(_, lock)| lock);
    written(&AuditLine {
        at: calendar::to_millis(wall_ms),
        after: Some(after),
        kind: "refused",
        outcome: outcome_of(refused.status),
        right: refused.wanted.as_ref().map(|(right, _)| right.name()),
        namespace: lock.map(|lock| cut(&lock.namespace, NAME_CHARS_MAX)),
        lock: lock.map(|lock| cut(&lock.name, NAME_CHARS_MAX)),
        status: Some(refused.status),
        method: Some(refused.method),
        route: Some(refused.route),
        by: Some(refused.by.clone()),
        claimed,
        ..AuditLine::default()
    })
}

pub(super) fn of_act(act: &Act, after: &str, wall_ms: i64) -> String {
    let Act { kind, act, by, lock, detail, claimed } = act;
    written(&AuditLine {
        at: calendar::to_millis(wall_ms),
        after: Some(after),
        kind: match kind {
            Kind::Admin => "admin",
            Kind::Session => "session",
            Kind::Content => "content",
        },
        outcome: "done",
        act: Some(act),
        namespace: lock.as_ref().map(|lock| cut(&lock.namespace, NAME_CHARS_MAX)),
        lock: lock.as_ref().map(|lock| cut(&lock.name, NAME_CHARS_MAX)),
        by: Some(by.clone()),
        detail: detail.clone(),
        claimed: claimed.clone(),
        ..AuditLine::default()
    })
}

/// Shortens a client's claim.
fn bounded(text: &str) -> String {
    let shown = cut(text, CLAIMED_CHARS_MAX);
    if shown.len() < text.len() { format!("{shown}...") } else { text.into() }
}

fn cut(text: &str, chars_max: usize) -> &str {
    text.char_indices().nth(chars_max).map_or(text, |(end, _)| &text[..end])
}

/// Returns the record as one line of printable ASCII, so that no text in it can control a terminal.
fn written(line: &AuditLine<'_>) -> String {
    // A record has only strings and numbers, so serializing cannot fail.
    let json = serde_json::to_string(line).unwrap_or_default();
    let mut written = String::with_capacity(json.len() + 1);
    let mut units = [0; 2];
    for c in json.chars() {
        match c {
            ' '..='~' => written.push(c),
            // Such characters occur only inside JSON strings, where the escape is valid.
            c => c.encode_utf16(&mut units).iter().for_each(|unit| {
                written.push_str(&format!("\\u{unit:04x}"));
            }),
        }
    }
    written.push('\n');
    written
}
